package outerctx

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func work(context.Context) error { return nil }

func reported(ctx context.Context, g *guard.Guard, r *http.Request, c *gin.Context) {
	_ = g.Do(ctx, "a", func(context.Context) error {
		return work(ctx) // want `the function has a context of its own, which ends when the lease is lost: use that, not ctx`
	})
	_ = g.Do(ctx, "a", func(_ context.Context) error {
		return g.Do(ctx, "b", work) // want `use that, not ctx`
	})
	_ = g.DoAll(ctx, []string{"a"}, func(inner context.Context) error {
		mine, cancel := context.WithCancel(ctx) // want `use that, not ctx`
		defer cancel()
		return work(mine)
	})
	_, _ = g.TryDo(ctx, "a", func(context.Context) error {
		return work(r.Context()) // want `use that, not r.Context\(\)`
	})
	_ = guard.Do(ctx, "a", func(context.Context) error {
		return work(c.Request.Context()) // want `use that, not c.Request.Context\(\)`
	})
	_ = g.Lead(ctx, "a", func(context.Context) error {
		return work(c) // want `use that, not c`
	})
	_, _ = guard.Call(ctx, g, "a", func(context.Context) (int, error) {
		return 0, work(ctx) // want `use that, not ctx`
	})
	_ = g.Do(ctx, "a", func(context.Context) error {
		own := context.Background() // want `use that, not context.Background\(\)`
		return work(own)
	})
	_ = g.Do(ctx, "a", func(context.Context) error {
		own, cancel := context.WithTimeout(context.TODO(), time.Second) // want `use that, not context.TODO\(\)`
		defer cancel()
		return work(own)
	})
}

func fine(ctx context.Context, g *guard.Guard) {
	_ = g.Do(ctx, "a", work)
	_ = g.Do(ctx, "a", func(ctx context.Context) error { return work(ctx) })
	_ = g.Do(ctx, "a", func(lease context.Context) error {
		slog.InfoContext(ctx, "both are used")
		return work(lease)
	})
	_ = g.Do(ctx, "a", func(context.Context) error {
		slog.InfoContext(ctx, "only logged")
		return work(context.WithoutCancel(ctx))
	})
	_ = g.Do(ctx, "a", func(context.Context) error { return ctx.Err() })
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		defer work(context.Background()) // cleans up
		return work(ctx)
	})
	_ = g.Do(ctx, "a", func(context.Context) error {
		slog.InfoContext(context.Background(), "only logged")
		return nil
	})
	_ = work(context.Background())
	func(context.Context) { _ = work(ctx) }(ctx)
}

type service struct {
	ctx context.Context
	g   *guard.Guard
}

func (s *service) field(ctx context.Context) {
	_ = s.g.Do(ctx, "a", func(context.Context) error {
		return work(s.ctx) // want `use that, not s.ctx`
	})
}

func acquired(ctx context.Context, g *guard.Guard) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(context.WithoutCancel(ctx))
	slog.InfoContext(ctx, "acquired", "key", lease.Key())
	if err := work(ctx); err != nil { // want `work under a lease ends when it is lost: use lease.Context\(\), not ctx`
		return err
	}
	return work(context.Background()) // want `use lease.Context\(\), not context.Background\(\)`
}

func tried(g *guard.Guard, r *http.Request) {
	if lease, err := g.TryAcquire(r.Context(), "a"); err == nil {
		_ = work(r.Context()) // want `use lease.Context\(\), not r.Context\(\)`
		_ = lease.Release(r.Context())
		_ = work(r.Context()) // released
	}
	_ = work(r.Context())
}

func handler(w http.ResponseWriter, r *http.Request, g *guard.Guard) {
	lease, err := g.Acquire(r.Context(), "a")
	if lockmw.Error(w, r, err) {
		_ = work(r.Context())
		return
	}
	defer lease.Release(r.Context())
	_ = work(r.Context()) // want `use lease.Context\(\), not r.Context\(\)`
}

func early(ctx context.Context, g *guard.Guard, jobs []string) error {
	for _, job := range jobs {
		lease, err := g.Acquire(ctx, job)
		if errors.Is(err, guard.ErrNotAcquired) {
			_ = work(ctx) // not held
			continue
		}
		if err != nil {
			return err
		}
		if job == "" {
			_ = lease.Release(ctx)
			return work(ctx) // released
		}
		_ = work(ctx) // want `use lease.Context\(\), not ctx`
		_ = lease.Release(ctx)
		_ = work(ctx) // released
	}
	return work(ctx)
}

func twice(ctx context.Context, g *guard.Guard) error {
	a, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer a.Release(ctx)
	b, err := g.Acquire(ctx, "b") // want `use a.Context\(\), not ctx`
	if err != nil {
		return err
	}
	defer b.Release(ctx)
	return work(b.Context())
}

func fineAfterAcquire(ctx context.Context, g *guard.Guard) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return work(ctx)
	}
	defer lease.Release(ctx)
	defer work(ctx)
	ctx = lease.Context()
	return work(ctx)
}

func fineByErr(ctx context.Context, g *guard.Guard) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	for lease.Err() == nil {
		_ = work(ctx)
	}
	return nil
}

func fineIfNotHeld(ctx context.Context, g *guard.Guard) error {
	for {
		lease, err := g.TryAcquire(ctx, "a")
		if err == nil {
			return lease.Release(ctx)
		}
		if err := work(ctx); err != nil {
			return err
		}
	}
}

func fineIfHandedOn(ctx context.Context, g *guard.Guard, keep func(*guard.Lease)) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	keep(lease)
	return work(ctx)
}

func fineInAGoroutine(ctx context.Context, g *guard.Guard) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	go work(ctx)
	later := func() error { return work(ctx) }
	_ = lease.Release(ctx)
	return later()
}
