// Package plain does not use the gin adapter.
package plain

import (
	"context"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
)

func buy(context.Context) error { return nil }

func handler(g *guard.Guard) gin.HandlerFunc {
	return func(c *gin.Context) {
		_ = g.Do(c, "a", buy) // want `c does not end`
		_ = buy(c)
	}
}
