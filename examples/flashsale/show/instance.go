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
	"strconv"
	"strings"
	"sync"
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

// visit is one request at an instance, as the instance tells it to the parent:
// again and again while it changes. Times are in µs since 1970, 0 for what has
// not happened.
type visit struct {
	Order   string
	Came    int64
	Held    int64  // when its section began: with the lease, or without a guard at once
	Wrote   int64  // when the write of its step was answered
	Lost    int64  // when its lease was lost
	Ended   int64  // when its section ended, or its wait for nothing
	Token   uint64 `json:",omitempty"` // fencing token
	Read    int    // the stock that it read; -1: it did not
	Behind  string `json:",omitempty"` // order whose grant was in the way last
	Handoff bool   `json:",omitempty"` // the turn came from another request of this instance
	Tries   int    `json:",omitempty"` // sent to Redis while waiting
}

// follower tells the parent what the requests of an instance do, as an observer
// of its guard and as a middleware. A nil one follows nothing. Safe for
// concurrent use.
type follower struct {
	guard.NopObserver
	guarded bool
	done    chan struct{} // closed by close: the stream ends
	soon    chan struct{} // holds one: something should be told before the next tick

	mu      sync.Mutex // guards what follows and the fields of every visit; not held across I/O
	changed []*visit   // not yet told, in the order of their first change
	pending map[*visit]bool
}

func newFollower(guarded bool) *follower {
	return &follower{
		guarded: guarded, done: make(chan struct{}), soon: make(chan struct{}, 1),
		pending: map[*visit]bool{},
	}
}

// close ends the stream once it has told everything.
func (f *follower) close() { close(f.done) }

type visitKey struct{}

// follow is a middleware in front of the guard.
func (f *follower) follow(c *gin.Context) {
	v := &visit{Order: c.GetHeader(shop.OrderHeader), Came: now(), Read: -1}
	if !f.guarded {
		v.Held = v.Came
	}
	f.change(v, func(*visit) {})
	c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), visitKey{}, followed{f, v}))
	c.Next()
	f.change(v, func(v *visit) {
		if v.Ended == 0 {
			v.Ended = now()
		}
	})
}

type followed struct {
	f *follower
	v *visit
}

// noteVisit changes what is known about the request in ctx, if somebody follows
// it.
func noteVisit(ctx context.Context, change func(v *visit)) {
	if on, ok := ctx.Value(visitKey{}).(followed); ok {
		on.f.change(on.v, change)
	}
}

func (f *follower) change(v *visit, change func(v *visit)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(v)
	if !f.pending[v] {
		f.pending[v] = true
		f.changed = append(f.changed, v)
	}
}

// WaitEnd notes who was in the way.
func (f *follower) WaitEnd(ctx context.Context, _ guard.WaitInfo, r guard.WaitResult) {
	noteVisit(ctx, func(v *visit) {
		v.Tries, v.Handoff, v.Behind = r.Attempts, r.Handoff, orderOf(r.Blocker.Traceparent)
		if r.Err != nil {
			v.Ended = now()
		}
	})
}

// HoldStart notes the start of the section.
func (f *follower) HoldStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	noteVisit(ctx, func(v *visit) { v.Held = now() })
	select {
	case f.soon <- struct{}{}: // pages want to know the holder, and this process may be stopped any moment
	default:
	}
	return ctx
}

// HoldEnd notes its end.
func (f *follower) HoldEnd(ctx context.Context, _ guard.WaitInfo, _ guard.HoldResult) {
	noteVisit(ctx, func(v *visit) { v.Ended = now() })
}

// LeaseLost notes the moment.
func (f *follower) LeaseLost(ctx context.Context, _ guard.WaitInfo, _ error) {
	noteVisit(ctx, func(v *visit) { v.Lost = now() })
}

// Traceparent stores the order with the key, in the form of a trace, so that a
// waiter knows whom it waited for.
func (f *follower) Traceparent(ctx context.Context) string {
	on, _ := ctx.Value(visitKey{}).(followed)
	if on.v == nil {
		return ""
	}
	n, err := strconv.ParseUint(on.v.Order, 10, 64)
	if err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("00-%032x-%016x-01", n, n)
}

// orderOf reads what Traceparent wrote.
func orderOf(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 {
		return ""
	}
	n, err := strconv.ParseUint(parts[2], 16, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

const tellEvery = 20 * time.Millisecond

// stream answers with visits as they change, one JSON object a line, until the
// instance ends.
func (f *follower) stream(c *gin.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	enc := json.NewEncoder(c.Writer)
	for last := false; !last; {
		c.Writer.Flush()
		select {
		case <-tick.C:
		case <-f.soon:
		case <-f.done:
			last = true
		case <-c.Request.Context().Done():
			return
		}
		for _, v := range f.take() {
			if enc.Encode(v) != nil {
				return // the parent has gone
			}
		}
	}
	c.Writer.Flush()
}

// take returns copies of what has changed.
func (f *follower) take() []visit {
	f.mu.Lock()
	defer f.mu.Unlock()
	visits := make([]visit, len(f.changed))
	for i, v := range f.changed {
		visits[i] = *v
	}
	f.changed = f.changed[:0]
	clear(f.pending)
	return visits
}

func now() int64 { return time.Now().UnixMicro() }

// watchedBook notes what a request reads and writes, for pages that follow it.
type watchedBook struct{ shop.OrderBook }

func (b watchedBook) Read(ctx context.Context, sku string, token uint64) (left int, err error) {
	left, err = b.OrderBook.Read(ctx, sku, token)
	noteVisit(ctx, func(v *visit) {
		v.Token = token
		if err == nil {
			v.Read = left
		}
	})
	return left, err
}

func (b watchedBook) Place(ctx context.Context, sku, order string, left int, token uint64) error {
	err := b.OrderBook.Place(ctx, sku, order, left, token)
	noteVisit(ctx, func(v *visit) { v.Wrote = now() })
	return err
}
