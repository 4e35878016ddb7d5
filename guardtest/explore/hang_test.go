package explore_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

const (
	standsStill = "stands still"
	brief       = 1500 * time.Millisecond // longer than a busy machine stands still by itself
)

// A run that cannot go on, or leaves something behind, fails with its story. No
// run ends the test program.
func TestARunThatHangsIsAFailureWithItsStory(t *testing.T) {
	var enough atomic.Bool
	t.Cleanup(func() { enough.Store(true) })
	for name, c := range map[string]struct {
		scenario func(w *explore.World)
		says     []string
	}{
		"a mutex across a Step": {func(w *explore.World) {
			var mu sync.Mutex
			for _, name := range []string{"A", "B"} {
				w.Go(name, func(ctx context.Context, _ *guard.Guard) error {
					mu.Lock()
					defer mu.Unlock()
					return w.Step(ctx, "write", func() error { return nil })
				})
			}
		}, []string{standsStill, "hang_test.go:", "Mutex.Lock"}},
		"real I/O": {func(w *explore.World) {
			w.Go("A", func(context.Context, *guard.Guard) error {
				r, _, err := os.Pipe()
				if err != nil {
					return err
				}
				_, err = r.Read(make([]byte, 1))
				return err
			})
		}, []string{standsStill, "hang_test.go:"}},
		"a block for good": {func(w *explore.World) {
			w.Go("A", func(ctx context.Context, g *guard.Guard) error {
				return g.Do(ctx, "k", func(context.Context) error { <-make(chan int); return nil })
			})
		}, []string{"A          has k", "A: not ended after 10m0s", "A blocks for good"}},
		"a goroutine is left": {func(w *explore.World) {
			w.Go("A", func(context.Context, *guard.Guard) error {
				go func() { <-make(chan int) }()
				return nil
			})
		}, []string{"goroutines are left"}},
		"a process panics": {func(w *explore.World) {
			w.Go("A", func(context.Context, *guard.Guard) error { panic("oh") })
		}, []string{"process A panics: oh", "hang_test.go:"}},
		"a ctx of no process": {func(w *explore.World) {
			w.Go("A", func(context.Context, *guard.Guard) error {
				return w.Step(context.Background(), "write", func() error { return nil }) //nolint:usetesting // the fault
			})
		}, []string{"a ctx of no process", "hang_test.go:"}},
		"the scenario panics": {func(*explore.World) {
			panic("oh")
		}, []string{"the scenario panics: oh", "hang_test.go:"}},
		"the check panics": {func(w *explore.World) {
			w.Check(func() error { panic("oh") })
		}, []string{"the check panics: oh", "hang_test.go:"}},
		"a cleanup panics": {func(w *explore.World) {
			w.Cleanup(func() { panic("oh") })
		}, []string{"a cleanup panics: oh", "hang_test.go:"}},
		"the check blocks for good": {func(w *explore.World) {
			w.Check(func() error { <-make(chan int); return nil })
		}, []string{"all goroutines in bubble are blocked"}},
		"a loop without end": {func(w *explore.World) {
			w.Go("A", func(context.Context, *guard.Guard) error {
				for !enough.Load() {
					runtime.Gosched()
				}
				return nil
			})
		}, []string{standsStill, "hang_test.go:"}},
		"steps without end": {func(w *explore.World) {
			w.Go("A", func(ctx context.Context, _ *guard.Guard) error {
				for {
					_ = w.Step(ctx, "look", func() error { return nil })
				}
			})
		}, []string{"A          look", "without a sleep", "lines more)"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.says[0] == standsStill {
				t.Cleanup(explore.SetPatience(brief))
			}
			story := explore.Find(t, c.scenario)
			t.Log(story)
			for _, says := range append(c.says, "without any fault", "docs/testing-crashes.md\n") {
				if !strings.Contains(story, says) {
					t.Errorf("the story does not say %q", says)
				}
			}
		})
	}
}

// The line that waits is found among many goroutines.
func TestAHangIsFoundInACrowd(t *testing.T) {
	t.Cleanup(explore.SetPatience(brief))
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	for range 10_000 {
		go func() { <-end }()
	}
	story := explore.Find(t, func(w *explore.World) {
		var mu sync.Mutex
		for range 2 {
			w.Go("A", func(ctx context.Context, _ *guard.Guard) error {
				mu.Lock()
				defer mu.Unlock()
				return w.Step(ctx, "write", func() error { return nil })
			})
		}
	})
	if !strings.Contains(story, "Mutex.Lock") {
		t.Error(story)
	}
}

// A dead process leaves no goroutines behind, whatever they wait for.
func TestWhatADeadProcessLeavesIsNoFailure(t *testing.T) {
	judge(t, func(w *explore.World) {
		w.Go("A", func(ctx context.Context, _ *guard.Guard) error {
			jobs, done := make(chan int), make(chan int)
			go func() {
				for range jobs {
					done <- 1
				}
			}()
			err := w.Step(ctx, "work", func() error { return nil })
			jobs <- 1
			<-done
			close(jobs)
			return err
		})
	}, false, explore.Without("lost-request", "lost-answer", "late"))
}

// A story has at most 30 lines, whatever happens, and keeps the faults.
func TestAStoryIsShort(t *testing.T) {
	story := explore.Find(t, func(w *explore.World) {
		steps := 0
		w.Deliver("pay", func(ctx context.Context, _ *guard.Guard) error {
			for i := range 20 {
				if err := w.Step(ctx, fmt.Sprint("step ", i), func() error { steps++; return nil }); err != nil {
					return fmt.Errorf("step %d:\n%w", i, err)
				}
			}
			return nil
		})
		w.Check(func() error {
			if steps > 21 {
				return fmt.Errorf("%d%s", steps, strings.Repeat("\nmore", 20))
			}
			return nil
		})
	})
	t.Log(story)
	if n := strings.Count(story, "\n"); n > 30 || n < 20 {
		t.Errorf("%d lines", n)
	}
	for _, says := range []string{
		"! DIES", "lines more)", "see: https://",
		"replay: EXPLORE='pay/step-1=crash' go test -run '^TestAStoryIsShort$'",
	} {
		if !strings.Contains(story, says) {
			t.Errorf("the story does not say %q", says)
		}
	}
}

// The runs of a search leave no goroutines behind, those with a crash neither,
// even if the dead process sleeps.
func TestRunsLeaveNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	explore.Find(t, paying(payAtMostOnce, false), explore.Runs(50))
	explore.Test(t, func(w *explore.World) {
		w.Go("A", func(ctx context.Context, g *guard.Guard) error {
			return g.Do(ctx, "k", func(ctx context.Context) error {
				go func() {
					time.Sleep(time.Minute)
					_ = w.Step(ctx, "clean up", func() error { return nil })
				}()
				time.Sleep(time.Second)
				return w.Step(ctx, "work", func() error { return nil })
			})
		})
	}, explore.Runs(50))
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
