package ginctx

import (
	"context"
	"log/slog"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

func buy(context.Context, string) error { return nil }

func nop(context.Context) error { return nil }

func routes(r *gin.Engine, g *guard.Guard) {
	r.POST("/stock/:sku", lockmw.Key(g, "stock:{sku}"), func(c *gin.Context) {
		_ = buy(c, c.Param("sku"))                                                         // want `c does not end when the request or its lease does: pass c.Request.Context\(\)`
		_ = g.Do(c, "a", nop)                                                              // want `c does not end when the request or its lease does`
		_, _ = guard.Call(c, g, "a", func(context.Context) (int, error) { return 0, nil }) // want `c does not end`
	})
	r.POST("/fine/:sku", func(c *gin.Context) {
		_ = buy(c.Request.Context(), c.Param("sku"))
		_ = g.Do(c.Request.Context(), "a", nop)
		_, _ = guard.FencingToken(c)
		_, _ = guard.LeaseFrom(c)
		slog.InfoContext(c, "bought")
		_ = buy(context.WithoutCancel(c), "later")
		helper(c)
	})
}

func helper(*gin.Context) {}
