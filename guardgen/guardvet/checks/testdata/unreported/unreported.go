// Package unreported has the mistakes that guardvet would have to guess. The
// README and the documentation of package checks name them.
package unreported

import (
	"context"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

// doer is an interface of its own.
type doer interface {
	Do(ctx context.Context, key string, fn func(context.Context) error) error
}

func nop(context.Context) error { return nil }

func verbs(ctx context.Context, g *guard.Guard, d doer, sku string) error {
	do := g.Do
	if err := do(ctx, "stock:"+sku, nop); err != nil {
		return err
	}
	return d.Do(ctx, "stock:"+sku, nop)
}

func newGuard() *guard.Guard {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	return g
}

func handler(c *gin.Context) {
	_ = newGuard().Do(c.Request.Context(), "one", nop)
}

func routes(r *gin.Engine, g *guard.Guard) {
	r.GET("/free", handler)
	r.Use(lockmw.Static(g, "all"))
	r.GET("/locked", handler)
}
