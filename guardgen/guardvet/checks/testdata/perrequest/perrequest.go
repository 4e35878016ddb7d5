package perrequest

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func nop(context.Context) error { return nil }

type service struct{ g *guard.Guard }

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = s.g.With(guard.WithMaxWait(0)).Do(r.Context(), "a", nop) // want `With is called for each request here: call it once, at start-up`
}

func (s *service) buy(c *gin.Context) {
	g := s.g.With(guard.WithMaxWait(0)) // want `With is called for each request here`
	_ = g.Do(c.Request.Context(), "a", nop)
}

func (s *service) sell(c echo.Context) error {
	return func() error {
		return s.g.With(guard.WithMaxWait(0)).Do(c.Request().Context(), "a", nop) // want `With is called for each request here`
	}()
}

func (s *service) Ping(ctx context.Context, _ *emptypb.Empty) (*emptypb.Empty, error) {
	return nil, s.g.With(guard.WithMaxWait(0)).Do(ctx, "a", nop) // want `With is called for each request here`
}

func loops(ctx context.Context, g *guard.Guard, jobs []string) {
	for _, job := range jobs {
		_ = g.With(guard.WithMaxWait(0)).Do(ctx, job, nop) // want `With is called in each round of the loop: call it once, before`
	}
	for {
		patient := g.With(guard.WithMaxWait(0)) // want `With is called in each round of the loop`
		if patient.Do(ctx, "a", nop) == nil {
			break
		}
	}
}

func fine(ctx context.Context, g *guard.Guard, mux *http.ServeMux, routes map[string]http.Handler) error {
	quick := g.With(guard.WithMaxWait(0))
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		_ = quick.Do(r.Context(), "a", nop)
	})
	for path, h := range routes {
		mux.Handle(path, lockmw.Key(g.With(guard.WithName(path)), "stock:{sku}")(h))
		own := g.With(guard.WithName(path))
		mux.HandleFunc(path, func(_ http.ResponseWriter, r *http.Request) { _ = own.Do(r.Context(), "a", nop) })
		go func() { _ = g.With(guard.WithName(path)).Lead(ctx, "a", nop) }()
	}
	return g.With(guard.WithMaxHold(0)).Do(ctx, "migrate", nop)
}

func middleware(g *guard.Guard, next http.Handler) http.Handler {
	return lockmw.Key(g.With(guard.WithMaxWait(0)), "stock:{sku}")(next)
}
