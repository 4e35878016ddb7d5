// Package fallback has gin.Contexts that end with their requests.
package fallback

import (
	"context"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

func buy(context.Context) error { return nil }

func routes(g *guard.Guard) {
	r := gin.New()
	r.ContextWithFallback = true
	r.POST("/:sku", lockmw.Key(g, "stock:{sku}"), func(c *gin.Context) {
		_ = g.Do(c, "a", buy)
		_ = buy(c)
	})
}
