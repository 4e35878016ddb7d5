package perrequest

import (
	"context"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
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

func newHere(c *gin.Context) {
	g, err := guard.New(memlocker.New()) // want `guard.New is called for each request here: call it once, at start-up`
	if err != nil {
		return
	}
	defer g.Close(c.Request.Context())
	_ = g.Do(c.Request.Context(), "a", nop)
}

func newRoutes(mux *http.ServeMux) {
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		g, _ := guard.New(memlocker.New()) // want `guard.New is called for each request here`
		_, _ = guard.Call(r.Context(), g, "a", func(context.Context) (int, error) { return 0, nil })
	})
}

func newInLoop(ctx context.Context, jobs []string) {
	for _, job := range jobs {
		g, _ := guard.New(memlocker.New()) // want `guard.New is called in each round of the loop`
		_ = g.Do(ctx, job, nop)
	}
}

var once sync.Once

func (s *service) fineOnce(w http.ResponseWriter, r *http.Request) {
	once.Do(func() {
		g, err := guard.New(memlocker.New())
		if err == nil && g.Check(r.Context()) == nil {
			s.g = g.With(guard.WithMaxWait(0))
		}
	})
	_ = s.g.Do(r.Context(), "a", nop)
}

func (s *service) fineLazy(_ http.ResponseWriter, r *http.Request) {
	if s.g == nil {
		s.g, _ = guard.New(memlocker.New())
	}
	_ = s.g.Do(r.Context(), "a", nop)
}

func fineTenants(tenants map[string]*guard.Guard) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		g, ok := tenants[r.Host]
		if !ok {
			g, _ = guard.New(memlocker.New())
			tenants[r.Host] = g
		}
		_ = g.Do(r.Context(), "a", nop)
	}
}

func fineNew(ctx context.Context, mux *http.ServeMux) error {
	for range 3 { // a measurement
		g, _ := guard.New(memlocker.New())
		_ = g.Do(ctx, "a", nop)
		_ = g.Close(ctx)
	}
	g, err := guard.New(memlocker.New())
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { _ = g.Do(r.Context(), "a", nop) })
	return err
}

func (s *service) lockHere(w http.ResponseWriter, r *http.Request) {
	lockmw.Key(s.g, "stock:{sku}")(http.NotFoundHandler()).ServeHTTP(w, r) // want `lockmw.Key is called for each request here: call it once, at start-up`
}

func fineLocks(g *guard.Guard, mux *http.ServeMux, paths []string) {
	for _, path := range paths {
		mux.Handle(path, lockmw.Key(g, "stock:{sku}")(http.NotFoundHandler()))
	}
}
