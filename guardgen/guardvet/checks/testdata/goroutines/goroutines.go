package goroutines

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard"
	lockecho "github.com/go-lockguard/guard/middleware/echo"
	lockgin "github.com/go-lockguard/guard/middleware/gin"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func work(context.Context) error { return nil }

func mail(string) {}

func reported(ctx context.Context, g *guard.Guard) {
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		go work(ctx) // want `nobody waits for this goroutine: its context ends, and the key is free, when the function returns`
		return nil
	})
	_, _ = g.TryDo(ctx, "a", func(lease context.Context) error {
		go func() { // want `nobody waits for this goroutine`
			_ = work(lease)
		}()
		return work(lease)
	})
}

func fine(ctx context.Context, g *guard.Guard) {
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		go mail("done") // may outlive the lease
		return work(ctx)
	})
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		var all sync.WaitGroup
		all.Add(1)
		go func() { defer all.Done(); _ = work(ctx) }()
		all.Wait()
		return nil
	})
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		done := make(chan error)
		go func() { done <- work(ctx) }()
		return <-done
	})
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		results := make(chan error)
		go func() { defer close(results); results <- work(ctx) }()
		for err := range results {
			_ = err
		}
		return nil
	})
	go work(ctx)
}

func buy(c *gin.Context) {
	go work(c.Request.Context()) // want `nobody waits for this goroutine: its context ends, and the key is free, when the handler returns`
}

func sell(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	go func() { _ = work(ctx) }() // want `when the handler returns`
}

func routes(r *gin.Engine, e *echo.Echo, mux *http.ServeMux, g *guard.Guard) {
	r.POST("/stock/:sku", lockgin.Key(g, "stock:{sku}"), buy)
	r.POST("/all", early, lockgin.Static(g, "all"), func(c *gin.Context) {
		go func() { _ = work(c.Request.Context()) }() // want `when the handler returns`
	})
	mux.Handle("/stock/{sku}", lockmw.Key(g, "stock:{sku}")(http.HandlerFunc(sell)))
	e.POST("/stock/:sku", func(c echo.Context) error {
		go work(c.Request().Context()) // want `when the handler returns`
		return nil
	}, lockecho.Key(g, "stock:{sku}"))
	r.POST("/fine/:sku", lockgin.Key(g, "stock:{sku}"), fineHandler)
	r.POST("/waits/:sku", lockgin.Key(g, "stock:{sku}"), fineWaits)
	r.POST("/free", free)
	r.Use(lockgin.Static(g, "all"))
}

func fineHandler(c *gin.Context) {
	ctx := context.WithoutCancel(c.Request.Context())
	go work(ctx)
	go work(context.WithoutCancel(c.Request.Context()))
	go slog.InfoContext(c.Request.Context(), "bought")
	go mail(c.Param("sku"))
	_ = work(c.Request.Context())
}

func fineWaits(c *gin.Context) {
	done := make(chan error)
	go func() { done <- work(c.Request.Context()) }()
	<-done
}

func early(c *gin.Context) { go work(c.Request.Context()) } // before the lock

func free(c *gin.Context) { go work(c.Request.Context()) } // no lock
