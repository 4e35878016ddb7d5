package outerctx

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
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
