package explore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// A refund in a defer never runs in a process that has died. A crash that
// unwinds the stack would hide that.
func TestACrashRunsNoDefer(t *testing.T) {
	judge(t, func(w *explore.World) {
		charged, ordered := 0, false
		w.Go("pay", func(ctx context.Context, g *guard.Guard) error {
			return g.Do(ctx, "pay:7", func(ctx context.Context) (err error) {
				if err := w.Step(ctx, "charge", func() error { charged++; return nil }); err != nil {
					return err
				}
				defer func() {
					if !ordered {
						_ = w.Step(context.WithoutCancel(ctx), "refund", func() error { charged--; return nil })
					}
				}()
				return w.Step(ctx, "order", func() error { ordered = true; return nil })
			})
		})
		w.Check(func() error {
			if charged != 0 && !ordered {
				return errors.New("charged without an order")
			}
			return nil
		})
	}, true, explore.Without("lost-answer", "lost-request", "late"))
}

// A local mutex is no lock: each process has its own.
func TestALocalMutexIsNoLock(t *testing.T) {
	judge(t, func(w *explore.World) {
		n, done := 0, 0
		for _, name := range []string{"A", "B"} {
			w.Go(name, func(ctx context.Context, _ *guard.Guard) error {
				var mu sync.Mutex // of this process
				mu.Lock()
				defer mu.Unlock()
				var read int
				if err := w.Step(ctx, "read", func() error { read = n; return nil }); err != nil {
					return err
				}
				return w.Step(ctx, fmt.Sprint("write ", read+1), func() error { n = read + 1; done++; return nil })
			})
		}
		w.Check(func() error {
			if n != done {
				return fmt.Errorf("%d of %d", n, done)
			}
			return nil
		})
	}, true)
}

// A double click with MinHold: convenience, not idempotency, as the documents
// say: after a crash and after the 5 s the same order is accepted again.
func TestDoubleClick(t *testing.T) {
	click := func(opts ...guard.Option) func(*explore.World) {
		return func(w *explore.World) {
			orders := 0
			for _, name := range []string{"first", "second"} {
				w.Go(name, func(ctx context.Context, g *guard.Guard) error {
					err := g.With(opts...).Do(ctx, "order:session", func(ctx context.Context) error {
						return w.Step(ctx, "order", func() error { orders++; return nil })
					})
					if errors.Is(err, guard.ErrNotAcquired) {
						return nil // 409
					}
					return err
				})
			}
			w.Check(func() error {
				if w.Calm() && orders != 1 {
					return fmt.Errorf("%d orders", orders)
				}
				return nil
			})
		}
	}
	t.Run("Do", func(t *testing.T) { judge(t, click(), true) })
	t.Run("MaxWait 0", func(t *testing.T) { judge(t, click(guard.WithMaxWait(0)), true) })
	t.Run("MinHold", func(t *testing.T) {
		judge(t, click(guard.WithMaxWait(0), guard.WithMinHold(5*time.Second, guard.OnSuccess)), false)
	})
}
