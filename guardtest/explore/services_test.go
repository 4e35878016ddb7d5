package explore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// moving is a scenario: two transfers between two carts, in opposite directions.
func moving(move func(ctx context.Context, g *guard.Guard, from, to string, do func(context.Context) error) error,
) func(*explore.World) {
	return func(w *explore.World) {
		carts := map[string]int{"a": 5, "b": 5}
		for name, way := range map[string][2]string{"there": {"a", "b"}, "back": {"b", "a"}} {
			w.Go(name, func(ctx context.Context, g *guard.Guard) error {
				return move(ctx, g, way[0], way[1], func(ctx context.Context) error {
					return w.Step(ctx, "move one from "+way[0]+" to "+way[1], func() error {
						carts[way[0]]--
						carts[way[1]]++
						return nil
					})
				})
			})
		}
		w.Check(func() error {
			if carts["a"]+carts["b"] != 10 {
				return fmt.Errorf("carts: %v", carts)
			}
			return nil
		})
	}
}

func moveNested(ctx context.Context, g *guard.Guard, from, to string, do func(context.Context) error) error {
	return g.Do(ctx, guard.Key("cart", from), func(ctx context.Context) error {
		return g.Do(ctx, guard.Key("cart", to), do)
	})
}

func moveAll(ctx context.Context, g *guard.Guard, from, to string, do func(context.Context) error) error {
	return g.DoAll(ctx, []string{guard.Key("cart", from), guard.Key("cart", to)}, do)
}

func TestCarts(t *testing.T) {
	t.Run("nested", func(t *testing.T) { judge(t, moving(moveNested), true) })
	t.Run("DoAll", func(t *testing.T) { judge(t, moving(moveAll), false) })
}

// The order service holds the order while it asks the stock service, which asks
// back for the same order.
func asking(under bool) func(*explore.World) {
	return func(w *explore.World) {
		w.Go("orders", func(ctx context.Context, g *guard.Guard) error {
			ask := func(ctx context.Context) error {
				answer := make(chan error, 1)
				w.Go("stock", func(ctx context.Context, g *guard.Guard) error {
					answer <- g.Do(ctx, "order:7", func(ctx context.Context) error {
						return w.Step(ctx, "reserve", func() error { return nil })
					})
					return nil
				})
				select {
				case err := <-answer:
					return err
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Minute):
					return errors.New("no answer")
				}
			}
			if under {
				return g.Do(ctx, "order:7", ask)
			}
			if err := g.Do(ctx, "order:7", func(context.Context) error { return nil }); err != nil {
				return err
			}
			return ask(ctx)
		})
	}
}

func TestAskingAnotherServiceUnderALock(t *testing.T) {
	t.Run("under the lock", func(t *testing.T) { judge(t, asking(true), true) })
	t.Run("outside", func(t *testing.T) { judge(t, asking(false), false) })
}

// A route behind a middleware, with a client that sends its request again.
func routed(use func(g *guard.Guard) func(http.Handler) http.Handler) func(*explore.World) {
	return func(w *explore.World) {
		charges, accepted := 0, false
		w.Deliver("client", func(ctx context.Context, g *guard.Guard) error {
			h := use(g)(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if err := w.Step(r.Context(), "charge", func() error { charges++; return nil }); err != nil {
					http.Error(rw, "later", http.StatusBadGateway)
					return
				}
				rw.WriteHeader(http.StatusCreated)
			}))
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders/7/pay", nil)
			r.SetPathValue("order", "7")
			r.Header.Set("Idempotency-Key", "4711")
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			w.Log(ctx, "answers %d", rec.Code)
			switch {
			case rec.Code < 300:
				accepted = true
			case rec.Code == http.StatusConflict || rec.Code >= 500:
				return errors.New("try again")
			}
			return nil
		})
		w.Check(func() error {
			if charges > 1 || accepted && charges == 0 {
				return fmt.Errorf("charged %d times", charges)
			}
			return nil
		})
	}
}

func TestRoutes(t *testing.T) {
	key := func(g *guard.Guard) func(http.Handler) http.Handler { return lockmw.Key(g, "order:{order}") }
	once := func(g *guard.Guard) func(http.Handler) http.Handler {
		return lockmw.Idempotent(g, keyfunc.Static("pay"), time.Hour)
	}
	most := func(g *guard.Guard) func(http.Handler) http.Handler {
		return lockmw.Idempotent(g.With(guard.WithAtMostOnce()), keyfunc.Static("pay"), time.Hour)
	}
	t.Run("Key", func(t *testing.T) { judge(t, routed(key), true) })
	t.Run("Idempotent", func(t *testing.T) { judge(t, routed(once), true) })
	t.Run("Idempotent, at most once", func(t *testing.T) { judge(t, routed(most), false) })
}
