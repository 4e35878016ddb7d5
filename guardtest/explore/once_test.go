package explore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// A payment service sends an event until it is answered. Each event is counted.
func webhook(handle func(context.Context, *guard.Guard, *explore.World, func() error) error) func(*explore.World) {
	return func(w *explore.World) {
		counted, answered := 0, 0
		for _, name := range []string{"event", "copy"} { // some services send each event twice
			w.Deliver(name, func(ctx context.Context, g *guard.Guard) error {
				err := handle(ctx, g, w, func() error { counted++; return nil })
				if err == nil {
					answered++
				}
				return err
			})
		}
		w.Check(func() error {
			if counted > 1 || answered > 0 && counted == 0 {
				return fmt.Errorf("counted %d times, answered %d times", counted, answered)
			}
			return nil
		})
	}
}

func TestWebhook(t *testing.T) {
	t.Run("Once", func(t *testing.T) {
		judge(t, webhook(func(ctx context.Context, g *guard.Guard, w *explore.World, count func() error) error {
			_, err := guard.Once(ctx, g, "event:9", time.Hour, func(ctx context.Context) (int, error) {
				return 0, w.Step(ctx, "count", count)
			})
			return err
		}), true)
	})
	t.Run("Once, with a row for each event", func(t *testing.T) {
		judge(t, func(w *explore.World) {
			seen := false
			webhook(func(ctx context.Context, g *guard.Guard, w *explore.World, count func() error) error {
				_, err := guard.Once(ctx, g, "event:9", time.Hour, func(ctx context.Context) (int, error) {
					return 0, w.Step(ctx, "count, if the row is new", func() error {
						if seen {
							return nil
						}
						seen = true
						return count()
					})
				})
				return err
			})(w)
		}, false)
	})
}

// Whatever happens but a store that forgets, all callers that get a result of
// Once get the result of a function that ran.
func TestOnceGivesAllTheSameResult(t *testing.T) {
	scenario := func(w *explore.World) {
		ran := 0
		results := map[int]bool{}
		for _, name := range []string{"A", "B", "C"} {
			w.Deliver(name, func(ctx context.Context, g *guard.Guard) error {
				n, err := guard.Once(ctx, g, "k", time.Hour, func(ctx context.Context) (n int, err error) {
					err = w.Step(ctx, "work", func() error { ran++; n = ran; return nil })
					return n, err
				})
				if err == nil {
					results[n] = true
				}
				return err
			})
		}
		w.Check(func() error {
			if len(results) > 1 || results[0] || w.Calm() && ran != 1 {
				return fmt.Errorf("ran %d times, results %v", ran, results)
			}
			return nil
		})
	}
	judge(t, scenario, false)
}
