package docs_test

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

// The first code of README.md. It is compiled only: what it warns of needs two
// processes, and what it recommends is tried by the tests of each package.

var _ = []any{readmeInstead, readmeRoute, readmeDo}

func readmeInstead(ctx context.Context, rdb *redis.Client, sku string) (err error) {
	// Instead of this, which polls, never renews, and deletes the key even if someone else holds it by then,
	for ok := false; !ok; time.Sleep(10 * time.Millisecond) {
		if ok, err = rdb.SetNX(ctx, "stock:"+sku, "me", 10*time.Second).Result(); err != nil {
			return err
		}
	}
	defer rdb.Del(ctx, "stock:"+sku)
	return nil
}

func readmeRoute(r *gin.Engine, g *guard.Guard, deduct gin.HandlerFunc) {
	// write one of these: a middleware on the route, or a call around your function:
	r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), deduct)
}

func readmeDo(ctx context.Context, g *guard.Guard, sku string, sell func(context.Context, string) error) error {
	err := g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
		return sell(ctx, sku) // ctx ends before the key can expire
	})
	return err
}
