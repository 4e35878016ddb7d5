package explore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

func TestALeaseThatIsNeverReleasedBreaksTheRun(t *testing.T) {
	const says = "has returned, and never releases k"
	for name, c := range map[string]struct {
		fn   func(ctx context.Context, w *explore.World, l *guard.Lease) error
		says string // "" is that no run is broken
	}{
		"released": {func(ctx context.Context, w *explore.World, l *guard.Lease) error {
			defer func() { _ = l.Release(ctx) }()
			return w.Step(l.Context(), "write", func() error { return nil })
		}, ""},
		"left": {func(ctx context.Context, w *explore.World, l *guard.Lease) error {
			return w.Step(l.Context(), "write", func() error { return nil })
		}, "broken without any fault"},
		"left after an error": {func(ctx context.Context, w *explore.World, l *guard.Lease) error {
			if err := w.Step(l.Context(), "write", func() error { return nil }); err != nil {
				return err
			}
			return l.Release(ctx)
		}, "broken by one fault"},
		"left to a goroutine": {func(ctx context.Context, w *explore.World, l *guard.Lease) error {
			go func() {
				_ = w.Step(l.Context(), "write", func() error { return nil })
				time.Sleep(time.Second)
				_ = l.Release(ctx)
			}()
			return nil
		}, ""},
		"not by defer": {func(ctx context.Context, w *explore.World, l *guard.Lease) error {
			err := w.Step(l.Context(), "write", func() error { return nil })
			return errors.Join(err, l.Release(context.WithoutCancel(ctx)))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			story := explore.Find(t, func(w *explore.World) {
				run := func(ctx context.Context, g *guard.Guard) error {
					l, err := g.Acquire(ctx, "k")
					if err != nil {
						return err
					}
					return c.fn(ctx, w, l)
				}
				w.Deliver("pay", run)
				w.Deliver("refund", run)
			}, explore.Level(2), explore.Runs(300))
			if c.says == "" != (story == "") ||
				c.says != "" && (!strings.Contains(story, c.says) || !strings.Contains(story, says)) {
				t.Errorf("got %s, want %q", story, c.says)
			}
		})
	}
}
