package explore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// What somebody new to the package may do.

// Two processes of one name are two in the story and in the line that replays
// it, whatever the name is.
func TestProcessesOfOneNameAreApart(t *testing.T) {
	for name, says := range map[string][]string{
		"sell":              {"   sell#2 ", "EXPLORE='sell/write=yield'"},
		"a=b; c":            {"   a-b- c#2 ", "EXPLORE='a-b- c/write=yield'"},
		"buyer A of item 7": {"   buyer A of item 7#2 ", "EXPLORE='buyer A of item 7/write=yield'"},
		"":                  {"   process#2 ", "EXPLORE='process/write=yield'"},
	} {
		n, runs := 0, 0
		sell := func(w *explore.World) func(context.Context, *guard.Guard) error {
			return func(ctx context.Context, _ *guard.Guard) error {
				var read int
				if err := w.Step(ctx, "read", func() error { read = n; return nil }); err != nil {
					return err
				}
				return w.Step(ctx, "write", func() error { n = read + 1; return nil })
			}
		}
		scenario := func(w *explore.World) {
			n = 0
			runs++
			w.Deliver(name, sell(w))
			w.Deliver(name, sell(w))
			w.Check(func() error {
				if n != 2 {
					return fmt.Errorf("%d of 2", n)
				}
				return nil
			})
		}
		story := explore.Find(t, scenario)
		for _, says := range says {
			if !strings.Contains(story, says) {
				t.Errorf("%q: the story does not say %q:\n%s", name, says, story)
			}
		}
		judge(t, scenario, true)
	}
}

// A lease may last longer than a run may, without a fault.
func TestALongLeaseIsNoHang(t *testing.T) {
	judge(t, func(w *explore.World) {
		w.Go("A", func(ctx context.Context, g *guard.Guard) error {
			return g.With(guard.WithTTL(6*time.Minute)).Do(ctx, "k", func(ctx context.Context) error {
				return w.Step(ctx, "work", func() error { return nil })
			})
		})
	}, false)
}

func TestAWrongScenarioIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		scenario func(w *explore.World)
		says     string
	}{
		"a second Check": {func(w *explore.World) {
			w.Check(func() error { return errors.New("wrong") })
			w.Check(func() error { return nil })
		}, "a second Check"},
		"a ctx of no process, in a goroutine": {func(w *explore.World) {
			w.Go("A", func(context.Context, *guard.Guard) error {
				done := make(chan error)
				go func() {
					done <- w.Step(context.Background(), "write", func() error { return nil }) //nolint:usetesting // the fault
				}()
				return <-done
			})
		}, "a ctx of no process"},
	} {
		t.Run(name, func(t *testing.T) {
			if story := explore.Find(t, c.scenario); !strings.Contains(story, c.says) {
				t.Errorf("the story does not say %q:\n%s", c.says, story)
			}
		})
	}
}

// What is made outside of a scenario outlasts a run.
func TestARunThatDoesNotRepeatIsSaid(t *testing.T) {
	charges := 0
	story := explore.Find(t, func(w *explore.World) {
		w.Go("pay", func(ctx context.Context, _ *guard.Guard) error {
			return w.Step(ctx, "charge", func() error { charges++; return nil })
		})
		w.Check(func() error {
			if charges > 1 {
				return fmt.Errorf("charged %d times", charges)
			}
			return nil
		})
	})
	if !strings.Contains(story, "does not repeat") {
		t.Error(story)
	}
}

// A test that fails by t in a run gets the story all the same, and a replay of
// what is not there does not pass. Each is a test program of its own.
func TestWhatFailsByItself(t *testing.T) {
	check := func(f func(t *testing.T)) {
		explore.Test(t, func(w *explore.World) {
			w.Go("pay", func(ctx context.Context, _ *guard.Guard) error {
				return w.Step(ctx, "charge", func() error { return nil })
			})
			w.Check(func() error {
				if !w.Calm() {
					f(t)
				}
				return nil
			})
		})
	}
	children := map[string]struct {
		do   func()
		says string
	}{
		"fatal":  {func() { check(func(t *testing.T) { t.Helper(); t.Fatal("wrong") }) }, "pay      ! DIES"},
		"error":  {func() { check(func(t *testing.T) { t.Helper(); t.Error("wrong") }) }, "return an error instead"},
		"replay": {func() { check(func(*testing.T) {}) }, "pay/refund=crash did not come"},
	}
	if c, ok := children[os.Getenv("CHILD")]; ok {
		if os.Getenv("CHILD") == "replay" {
			t.Setenv("EXPLORE", "pay/refund=crash")
		}
		c.do()
		return
	}
	for name, c := range children {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWhatFailsByItself$")
		cmd.Env = append(os.Environ(), "CHILD="+name)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) || bytes.Count(out, []byte("\n")) > 40 {
			t.Errorf("%s: error %v, want %q:\n%.3000s", name, err, c.says, out)
		}
	}
}

// A search says how many faults it has tried at once.
func TestASearchSaysHowFarItWent(t *testing.T) {
	var st explore.Stats
	explore.Find(t, paying(payAtMostOnce, false), explore.Runs(10), explore.Count(&st))
	if st.Level != 1 {
		t.Errorf("%d faults at once, want 1", st.Level)
	}
}
