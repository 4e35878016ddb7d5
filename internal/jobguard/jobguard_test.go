package jobguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/jobguard"
)

func TestOnlyAJobThatHasNotBegunIsRefused(t *testing.T) {
	errWork := errors.New("work")
	for name, c := range map[string]struct {
		ctx     func(context.Context) context.Context
		key     string
		held    bool
		down    bool
		closed  bool
		err     error
		refused bool
	}{
		"done":                 {key: "k"},
		"failed":               {key: "k", err: errWork},
		"refused inside":       {key: "k", err: guard.ErrNotAcquired},
		"held":                 {key: "k", held: true, refused: true},
		"no answer":            {key: "k", down: true, refused: true},
		"closed":               {key: "k", closed: true, refused: true},
		"a bad key":            {key: ""},
		"its own time is over": {key: "k", held: true, ctx: ended},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := guardtest.New(t), t.Context()
			if c.held {
				g.Hold(c.key)
			}
			if c.down {
				g.Break()
			}
			if c.closed {
				_ = g.Close(ctx)
			}
			if c.ctx != nil {
				ctx = c.ctx(ctx)
			}
			err := jobguard.Do(ctx, jobguard.Settings{}.Guard(g.Guard), c.key,
				func(context.Context) error { return c.err })
			r := (*jobguard.RefusedError)(nil)
			if errors.As(err, &r) != c.refused {
				t.Fatalf("got %v (%T), refused: want %t", err, err, c.refused)
			}
			if c.refused && r.Held() != c.held {
				t.Errorf("held: got %t, want %t", r.Held(), c.held)
			}
			if c.refused && (r.After < time.Second || r.After > 90*time.Second) {
				t.Errorf("it comes back after %v", r.After)
			}
			if c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
		})
	}
}

func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func TestARefusedJobComesBackWhenTheKeyMayBeFree(t *testing.T) {
	g := guardtest.New(t, guard.WithTTL(20*time.Second))
	g.Hold("k")
	seen := map[time.Duration]bool{}
	for range 20 {
		err := jobguard.Do(t.Context(), jobguard.Settings{}.Guard(g.Guard), "k",
			func(context.Context) error { return nil })
		r := (*jobguard.RefusedError)(nil)
		if !errors.As(err, &r) || !errors.Is(err, guard.ErrNotAcquired) || r.Error() != errors.Unwrap(err).Error() {
			t.Fatalf("got %v", err)
		}
		seen[r.After] = true
	}
	if len(seen) < 2 {
		t.Error("refused jobs come back at the same moment")
	}
}

func TestAJobMayWaitForItsKey(t *testing.T) {
	g := guardtest.New(t)
	release := g.Hold("k")
	s := jobguard.Apply([]func(*jobguard.Settings){func(s *jobguard.Settings) { s.Wait = time.Minute }})
	ran := make(chan error)
	go func() { // ends with the job
		ran <- jobguard.Do(t.Context(), s.Guard(g.Guard), "k", func(context.Context) error { return nil })
	}()
	for len(g.Snapshot(false)) == 0 {
		time.Sleep(time.Millisecond)
	}
	release()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

func TestSoManyJobsHaveAKeyAsThereArePermits(t *testing.T) {
	g := guardtest.New(t)
	three := jobguard.Settings{}.Guard(g.With(guard.WithPermits(3)))
	do := func() error {
		return jobguard.Do(t.Context(), three, "k", func(context.Context) error { return nil })
	}
	for range 2 {
		g.Hold("k", guard.WithPermits(3))
	}
	if err := do(); err != nil {
		t.Errorf("the third: %v", err)
	}
	g.Hold("k", guard.WithPermits(3))
	if r := (*jobguard.RefusedError)(nil); !errors.As(do(), &r) || !r.Held() {
		t.Errorf("the fourth: got %v, want one that is refused", r)
	}
}
