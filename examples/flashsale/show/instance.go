package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// newRouter is the app with what the parent wants to know of it.
func newRouter(g *guard.Guard, s *shop.Shop, t *telemetry, f *follower, mode shop.Mode, how shop.Style) *gin.Engine {
	r := gin.New()
	r.Use(gin.Recovery())
	r.GET("/stats", t.serveStats)
	r.GET("/spans", t.serveSpans)
	if f != nil {
		r.GET("/visits", f.stream)
		r.Use(f.follow)
	}
	r.Use(otelgin.Middleware("flashsale", otelgin.WithTracerProvider(t.traces)))
	shop.AddRoutes(r, g, s, mode, how)
	return r
}

// newGuard needs one option in a service of its own: the name. The rest is what
// this example has flags for.
func newGuard(l locker.Locker, cfg instanceConfig, t *telemetry, f *follower) (*guard.Guard, error) {
	observer, err := t.observer()
	if err != nil {
		return nil, err
	}
	opts := []guard.Option{
		guard.WithName("stock"), guard.WithTTL(cfg.TTL), guard.WithMaxWait(cfg.Wait), guard.WithObserver(observer),
	}
	if f != nil {
		opts = append(opts, guard.WithObserver(f))
	}
	if cfg.Mode == shop.ModeFence {
		opts = append(opts, guard.WithFencing())
	}
	return guard.New(l, opts...)
}

// newLocker is the store of the leases.
func newLocker(rdb redis.UniversalClient, server endpoint, cfg instanceConfig, t *telemetry) locker.Locker {
	opts := []redislocker.Option{redislocker.WithPrefix(cfg.Prefix), redislocker.WithHook(t.redisHook())}
	if server.sentinel != nil {
		opts = append(opts, redislocker.WithSentinel(server.sentinel))
	}
	return redislocker.New(rdb, opts...)
}

// instanceEnv holds the instanceConfig of a child, as JSON.
const instanceEnv = "FLASHSALE_INSTANCE"

// instanceConfig is all that a child needs to know.
type instanceConfig struct {
	Name     string
	Mode     shop.Mode
	Style    shop.Style
	Redis    string // any form of -redis
	RedisVia string `json:",omitempty"` // host:port in front of it; "": none
	Prices   string // base URL of the price service
	Prefix   string // of every key of this run
	TTL      time.Duration
	Wait     time.Duration
	Trace    bool   // keep spans for the parent
	OTLP     string // URL of a collector; "": none
	Deaf     bool
	Live     bool // follow every request for the parent
}

// instanceMain is the child process: it serves until its stdin ends, which it
// does even if the parent is killed.
func instanceMain(settings string) int {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of the terminal; the parent decides
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var cfg instanceConfig
	err := json.Unmarshal([]byte(settings), &cfg)
	if err == nil {
		err = serveInstance(ctx, cfg, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitOK
}

// serveInstance serves one app instance until ctx ends, and writes its address
// to ready.
func serveInstance(ctx context.Context, cfg instanceConfig, ready io.Writer) (err error) {
	server, err := parseRedis(cfg.Redis)
	if err != nil {
		return err
	}
	if cfg.RedisVia != "" {
		server.single.Network, server.single.Addr = "tcp", cfg.RedisVia
	}
	rdb := server.open()
	defer rdb.Close()
	t, err := newTelemetry(ctx, cfg)
	if err != nil {
		return err
	}
	rdb.AddHook(t.redisHook())
	var f *follower
	if cfg.Live {
		f = newFollower(cfg.Mode.Locked())
	}
	g, err := newGuard(newLocker(rdb, server, cfg, t), cfg, t, f)
	if err != nil {
		return err
	}
	s := &shop.Shop{
		Book: watchedBook{openBook(rdb, server, cfg.Prefix)}, Fenced: cfg.Mode == shop.ModeFence, Deaf: cfg.Deaf,
		Prices: &shop.PriceClient{HTTP: newHTTPClient(0), Base: cfg.Prices, Instance: cfg.Name},
	}

	gin.SetMode(gin.ReleaseMode)
	srv := &http.Server{Handler: newRouter(g, s, t, f, cfg.Mode, cfg.Style), ReadHeaderTimeout: 10 * time.Second}
	if f != nil {
		srv.RegisterOnShutdown(f.close)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(ready, listener.Addr())

	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
	}
	// First the server, then the guard, then telemetry and client: each is used
	// by the one before.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(grace), g.Close(grace), t.close(grace))
}
