package show

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Limits of the parent's patience with a child.
const (
	startLimit = 20 * time.Second
	stopLimit  = 5 * time.Second
)

// instance is one app instance, seen from the parent: a child process.
type instance struct {
	name  string
	url   string
	cmd   *exec.Cmd
	stdin io.Closer // its end is the child's sign to leave
	log   tail

	halted atomic.Bool // paused on purpose: nobody sends it anything new
	lost   bool        // it had died before the sale ended it

	gone chan struct{} // closed once the process has ended
}

// startFleet starts n instances at once and returns when all of them serve. It
// gets the settings of each from settings, by its number from 1 on.
func startFleet(ctx context.Context, n int, settings func(n int) instanceConfig) ([]*instance, error) {
	fleet, errs := make([]*instance, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fleet[i], errs[i] = startInstance(ctx, settings(i+1)) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	for i := 0; err != nil && i < n; i++ {
		if errs[i] == nil {
			fleet[i].stop()
		}
	}
	return fleet, err
}

// childAttr is what else the system is to do with a child.
var childAttr *syscall.SysProcAttr

// startInstance runs this program again, as a child, and returns when it
// serves.
func startInstance(ctx context.Context, cfg instanceConfig) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:gosec,noctx // it is this program; stop ends it in good order
	in := &instance{name: cfg.Name, cmd: cmd, gone: make(chan struct{})}
	cmd.Env = append(os.Environ(), instanceEnv+"="+string(settings))
	cmd.Stderr, cmd.SysProcAttr = &in.log, childAttr
	stdout, err1 := cmd.StdoutPipe()
	stdin, err2 := cmd.StdinPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	in.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", in.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	giveUp := context.AfterFunc(ctx, in.kill)
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	giveUp()
	in.url = "http://" + strings.TrimSpace(addr)
	go func() { // ends with the process
		_ = cmd.Wait() // what it says is in cmd.ProcessState
		close(in.gone)
	}()
	if err != nil {
		<-in.gone
		return nil, fmt.Errorf("%s did not start: %w\n%v\n%s", in.name, errors.Join(err, ctx.Err()), cmd.ProcessState,
			in.log)
	}
	return in, nil
}

// stop ends the process in good order, or by force if that takes long.
func (in *instance) stop() {
	_ = in.resume() // a stopped process would not notice; one that has ended need not
	in.stdin.Close()
	select {
	case <-in.gone:
	case <-time.After(stopLimit):
		in.kill()
		<-in.gone
	}
}

// alive says whether the process runs, or is paused.
func (in *instance) alive() bool {
	select {
	case <-in.gone:
		return false
	default:
		return true
	}
}

// kill is kill -9. Killing a process that has ended does nothing.
func (in *instance) kill() { _ = in.cmd.Process.Kill() }

// pid returns the process id.
func (in *instance) pid() int { return in.cmd.Process.Pid }

// tail keeps the last part of what a child logs, to be read once it has ended.
type tail string

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	*t += tail(p)
	*t = (*t)[max(0, len(*t)-tailSize):]
	return len(p), nil
}

// instanceEnv holds the instanceConfig of a child, as JSON.
const instanceEnv = "FLASHSALE_INSTANCE"

// instanceConfig is all that a child needs to know.
type instanceConfig struct {
	config
	Name     string
	Redis    string // any form of -redis
	RedisVia string `json:",omitempty"` // host:port in front of it; "": none
	Prices   string // base URL of the price service
	Prefix   string // of every key of this run
	OTLP     string // URL of a collector; "": none
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
func serveInstance(ctx context.Context, cfg instanceConfig, ready io.Writer) error {
	server, err := parseRedis(cfg.Redis)
	if err != nil {
		return err
	}
	if cfg.RedisVia != "" {
		server.Single.Network, server.Single.Addr = "tcp", cfg.RedisVia
	}
	rdb := server.Client()
	defer rdb.Close()
	t, err := newTelemetry(ctx, cfg)
	if err != nil {
		return err
	}
	rdb.AddHook(t)
	f := newFollower(ctx, cfg)
	g, err := newGuard(cfg, rdb, server, t, f)
	if err != nil {
		return err
	}
	s := &shop.Shop{
		Book: followedBook{server.book(rdb, cfg.Prefix), f}, Fenced: cfg.Mode == shop.ModeFence, Deaf: cfg.Deaf,
		Prices: &shop.PriceClient{HTTP: newHTTPClient(0), Base: cfg.Prices, Instance: cfg.Name},
	}

	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())
	if t.spans != nil {
		r.GET("/spans", func(c *gin.Context) { c.JSON(http.StatusOK, spansOf(t.spans.GetSpans())) })
	}
	r.GET("/visits", f.stream)
	r.Use(f.follow, otelgin.Middleware("flashsale", otelgin.WithTracerProvider(t.traces)))
	shop.AddRoutes(r, g, s, cfg.Mode, cfg.Style)
	srv, failed, err := serve(ctx, "127.0.0.1:0", r)
	if err != nil {
		return err
	}
	fmt.Fprintln(ready, srv.Addr)
	select {
	case err = <-failed:
		return err
	case <-ctx.Done():
	}
	// First the server, then the guard, then telemetry and client: each is used
	// by the one before.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceLimit)
	defer cancel()
	return errors.Join(srv.Shutdown(grace), g.Close(grace), t.close(grace))
}

// newGuard needs one option in a service of its own: the name. The rest is what
// this example has flags for.
func newGuard(cfg instanceConfig, rdb redis.UniversalClient, server endpoint, t *telemetry, f *follower) (
	*guard.Guard, error,
) {
	leases := []redislocker.Option{redislocker.WithPrefix(cfg.Prefix), redislocker.WithHook(t)}
	if server.Sentinel != nil {
		leases = append(leases, redislocker.WithSentinel(server.Sentinel))
	}
	opts := []guard.Option{guard.WithName("stock"), guard.WithTTL(cfg.TTL), guard.WithMaxWait(cfg.Wait)}
	if t.observer != nil {
		opts = append(opts, guard.WithObserver(t.observer)) // the first, so that its traceparents are stored
	}
	opts = append(opts, guard.WithObserver(f))
	if cfg.Mode == shop.ModeFence {
		opts = append(opts, guard.WithFencing())
	}
	return guard.New(redislocker.New(rdb, leases...), opts...)
}

// follower tells the parent what the requests of an instance do, as an observer
// of its guard and as a middleware. It tells of a visit again and again while
// that changes. Safe for concurrent use.
type follower struct {
	guard.NopObserver
	cfg  instanceConfig
	done <-chan struct{} // closed when the stream is to end
	soon chan struct{}   // holds one: something should be told before the next tick

	mu      sync.Mutex      // guards what follows and the fields of every visit; not held across I/O
	changed map[*visit]bool // not yet told
}

// newFollower returns a follower whose stream ends with ctx, once it has told
// everything.
func newFollower(ctx context.Context, cfg instanceConfig) *follower {
	return &follower{cfg: cfg, done: ctx.Done(), soon: make(chan struct{}, 1), changed: map[*visit]bool{}}
}

type visitKey struct{}

// follow is a middleware in front of the guard. It follows buyers only.
func (f *follower) follow(c *gin.Context) {
	order := c.GetHeader(shop.OrderHeader)
	if order == "" {
		return
	}
	ctx := context.WithValue(c.Request.Context(), visitKey{}, &visit{Order: order, Lane: f.cfg.Name, Came: now()})
	f.note(ctx, func(v *visit) {
		if !f.cfg.Mode.Locked() {
			v.Held = v.Came
		}
	})
	c.Request = c.Request.WithContext(ctx)
	c.Next()
	f.note(ctx, func(v *visit) { v.Ended = cmp.Or(v.Ended, now()) })
}

// now is the time as instances tell it: in µs since 1970.
func now() int64 { return time.Now().UnixMicro() }

// note changes what is known about the request in ctx, if it is a buyer's.
func (f *follower) note(ctx context.Context, change func(v *visit)) {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		change(v)
		f.changed[v] = true
	}
}

// noteKey is note for what happens to the key of the sale. The guard of style
// once has keys of orders too.
func (f *follower) noteKey(ctx context.Context, w guard.WaitInfo, change func(v *visit)) {
	if strings.HasPrefix(w.Key, "stock:") {
		f.note(ctx, change)
	}
}

// WaitEnd notes who was in the way.
func (f *follower) WaitEnd(ctx context.Context, w guard.WaitInfo, r guard.WaitResult) {
	f.noteKey(ctx, w, func(v *visit) {
		v.Tries, v.Handoff, v.Behind = r.Attempts, r.Handoff, orderOf(r.Blocker.Traceparent)
		if r.Err != nil {
			v.Ended = now()
		}
	})
}

// HoldStart notes the start of the section.
func (f *follower) HoldStart(ctx context.Context, w guard.WaitInfo) context.Context {
	f.noteKey(ctx, w, func(v *visit) { v.Held = now() })
	select {
	case f.soon <- struct{}{}: // pages want to know the holder, and this process may be stopped any moment
	default:
	}
	return ctx
}

// HoldEnd notes its end. It may overtake LeaseLost.
func (f *follower) HoldEnd(ctx context.Context, w guard.WaitInfo, r guard.HoldResult) {
	f.noteKey(ctx, w, func(v *visit) {
		v.Ended = now()
		if v.Lost == 0 && errors.Is(r.Err, guard.ErrLeaseLost) {
			v.Lost = v.Ended
		}
	})
}

// LeaseLost notes the moment.
func (f *follower) LeaseLost(ctx context.Context, w guard.WaitInfo, _ error) {
	f.noteKey(ctx, w, func(v *visit) { v.Lost = now() })
}

// Traceparent stores the order with the key, in the form of a trace, so that a
// waiter knows whom it waited for.
func (f *follower) Traceparent(ctx context.Context) string {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		if n, err := strconv.ParseUint(v.Order, 10, 64); err == nil && n > 0 {
			return fmt.Sprintf("00-%032x-%016x-01", n, n)
		}
	}
	return ""
}

// orderOf reads what Traceparent wrote.
func orderOf(traceparent string) string {
	var high, n uint64
	if _, err := fmt.Sscanf(traceparent, "00-%x-%x-01", &high, &n); err != nil {
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
	var visits []visit
	for v := range f.changed {
		visits = append(visits, *v)
	}
	clear(f.changed)
	return visits
}

// followedBook notes what a request reads and writes.
type followedBook struct {
	shop.OrderBook
	f *follower
}

func (b followedBook) Read(ctx context.Context, sku string, token uint64) (left int, err error) {
	left, err = b.OrderBook.Read(ctx, sku, token)
	b.f.note(ctx, func(v *visit) {
		v.Token = token
		if err == nil {
			v.Read = &left
		}
	})
	return left, err
}

func (b followedBook) Place(ctx context.Context, sku, order string, left int, token uint64) error {
	err := b.OrderBook.Place(ctx, sku, order, left, token)
	b.f.note(ctx, func(v *visit) { v.Wrote = now() })
	return err
}
