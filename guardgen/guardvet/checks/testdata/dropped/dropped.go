package dropped

import (
	"context"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	echomw "github.com/go-lockguard/guard/middleware/echo"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

func nop(context.Context) error { return nil }

func reported(ctx context.Context, g *guard.Guard) {
	g.With(guard.WithMaxWait(0)) // want `With returns \*guard.Guard, which is dropped`
	g.Do(ctx, "a", nop)          // want `Do returns an error, which is dropped`
	guard.Do(ctx, "a", nop)      // want `Do returns an error, which is dropped`
	go g.Do(ctx, "a", nop)       // want `Do returns an error, which is dropped`
	defer g.DoAll(ctx, nil, nop) // want `DoAll returns an error, which is dropped`
	g.TryDo(ctx, "a", nop)       // want `TryDo returns an error, which is dropped`
	go g.Lead(ctx, "a", nop)     // want `Lead returns an error, which is dropped`
	g.Acquire(ctx, "a")          // want `Acquire returns an error, which is dropped`
	g.Check(ctx)                 // want `Check returns an error, which is dropped`
	guard.Key("a")               // want `Key returns string, which is dropped`
	guard.WithMaxWait(0)         // want `WithMaxWait returns guard.Option, which is dropped`
	lockmw.Key(g, "stock:{sku}") // want `Key returns gin.HandlerFunc, which is dropped`
	echomw.Error(nil)            // want `Error returns an error, which is dropped`
}

func fine(ctx context.Context, g *guard.Guard, l *guard.Lease) error {
	_ = g.Do(ctx, "a", nop)
	_, _ = g.TryDo(ctx, "a", nop)
	g = g.With(guard.WithMaxWait(0))
	defer l.Release(ctx)
	defer g.Close(ctx)
	guard.SetDefault(g)
	return g.Do(ctx, "a", nop)
}

func handler(c *gin.Context) { lockmw.Abort(c, guard.ErrClosed) }
