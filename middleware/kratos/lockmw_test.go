package lockmw_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	nethttp "net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	kerrors "github.com/go-kratos/kratos/v3/errors"
	"github.com/go-kratos/kratos/v3/log"
	"github.com/go-kratos/kratos/v3/middleware"
	"github.com/go-kratos/kratos/v3/middleware/recovery"
	"github.com/go-kratos/kratos/v3/transport/grpc"
	"github.com/go-kratos/kratos/v3/transport/http"
	"go.uber.org/goleak"
	ggrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/kratos"
)

func TestMain(m *testing.M) {
	log.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

type message = wrapperspb.StringValue

// The operations of a handwritten service with strings as messages.
const (
	buy     = "/shop.Stock/Buy"
	price   = "/shop.Stock/Price"   // the same key as buy
	look    = "/shop.Stock/Look"    // without a rule
	confuse = "/shop.Stock/Confuse" // a rule for messages of another type
)

var operations = []string{buy, price, look, confuse}

func key(m *message) string {
	if m.GetValue() == "" {
		return ""
	}
	return guard.Key("stock", m.GetValue())
}

func rules(g *guard.Guard, opts ...lockmw.Option) []lockmw.Rule {
	return []lockmw.Rule{
		lockmw.Key(g, buy, key, opts...), lockmw.Key(g, price, key, opts...),
		lockmw.Key(g, confuse, func(int) string { return "k" }),
	}
}

// handler is the handler of every operation of a test.
type handler func(ctx context.Context) error

// A call calls an operation. It returns its error as a Kratos error, and the
// Retry-After of the reply.
type call func(ctx context.Context, operation, sku string) (err *kerrors.Error, retryAfter string)

// serve serves h behind the rules over both transports.
func serve(t *testing.T, h handler, rules ...lockmw.Rule) map[string]call {
	t.Helper()
	lock := lockmw.Server(rules...)
	return map[string]call{"http": serveHTTP(t, h, lock), "grpc": serveGRPC(t, h, lock, rules)}
}

func serveHTTP(t *testing.T, h handler, lock middleware.Middleware) call {
	t.Helper()
	s := http.NewServer(http.Address("127.0.0.1:0"), http.Timeout(time.Hour),
		http.Middleware(recovery.Recovery(), lock))
	r := s.Route("/")
	for _, operation := range operations {
		r.POST(operation, func(ctx http.Context) error { // as the generated code does
			http.SetOperation(ctx, operation)
			var in message
			if err := json.NewDecoder(ctx.Request().Body).Decode(&in); err != nil {
				return err
			}
			next := ctx.Middleware(func(ctx context.Context, _ any) (any, error) { return nil, h(ctx) })
			if _, err := next(ctx, &in); err != nil {
				return err
			}
			return ctx.Result(nethttp.StatusOK, nil)
		})
	}
	base := start(t, s)
	return func(ctx context.Context, operation, sku string) (*kerrors.Error, string) {
		body, _ := json.Marshal(map[string]string{"value": sku})
		req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, "http://"+base.Host+operation,
			bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		res, err := new(nethttp.Client).Do(req)
		if err != nil {
			return kerrors.FromError(err), ""
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		if res.StatusCode == nethttp.StatusOK {
			return nil, ""
		}
		e := new(kerrors.Error)
		if err := json.Unmarshal(text, &e.Status); err != nil || int(e.Code) != res.StatusCode {
			t.Errorf("got %d %s, %v", res.StatusCode, text, err)
		}
		return e, res.Header.Get("Retry-After")
	}
}

func serveGRPC(t *testing.T, h handler, lock middleware.Middleware, rules []lockmw.Rule) call {
	t.Helper()
	s := grpc.NewServer(grpc.Address("127.0.0.1:0"), grpc.Timeout(time.Hour),
		grpc.Middleware(recovery.Recovery(), lock))
	s.RegisterService(desc(h), nil)
	if err := lockmw.Verify(s, rules...); err != nil {
		t.Error(err)
	}
	base := start(t, s)
	conn, err := ggrpc.NewClient(base.Host, ggrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context, operation, sku string) (*kerrors.Error, string) {
		if err := conn.Invoke(ctx, operation, wrapperspb.String(sku), new(message)); err != nil {
			e := kerrors.FromError(err)
			return e, e.Metadata["retry_after"]
		}
		return nil, ""
	}
}

func desc(h handler) *ggrpc.ServiceDesc {
	d := &ggrpc.ServiceDesc{ServiceName: "shop.Stock"}
	for _, operation := range operations {
		d.Methods = append(d.Methods, ggrpc.MethodDesc{
			MethodName: strings.TrimPrefix(operation, "/shop.Stock/"),
			Handler: func(_ any, ctx context.Context, dec func(any) error,
				in ggrpc.UnaryServerInterceptor,
			) (any, error) {
				m := new(message)
				if err := dec(m); err != nil {
					return nil, err
				}
				return in(ctx, m, &ggrpc.UnaryServerInfo{FullMethod: operation},
					func(ctx context.Context, req any) (any, error) {
						return req, h(ctx)
					})
			},
		})
	}
	return d
}

// start starts a server and returns its address.
func start(t *testing.T, s interface {
	Endpoint() (*url.URL, error)
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
},
) *url.URL {
	t.Helper()
	at, err := s.Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Start(t.Context()) }() // ends with Stop
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	})
	return at
}

func done(context.Context) error { return nil }

// want checks code and reason of an error, and whether it has a Retry-After.
func want(t *testing.T, what string, e *kerrors.Error, after string, code int, reason string, retry bool) {
	t.Helper()
	if e == nil || int(e.Code) != code || e.Reason != reason || reason != "" && e.Metadata["domain"] != lockmw.Domain {
		t.Errorf("%s: got %v, want %d %s", what, e, code, reason)
		return
	}
	if seconds, _ := strconv.Atoi(after); retry != (seconds >= 1) || e.Metadata["retry_after"] != after {
		t.Errorf("%s: got Retry-After %q, metadata %v; want one: %v", what, after, e.Metadata, retry)
	}
	if strings.Contains(fmt.Sprint(e.Message, e.Metadata), "s3cret") {
		t.Errorf("%s: the error names the key: %v", what, e)
	}
}

func TestTheTable(t *testing.T) {
	quiet := guard.WithLogger(slog.New(slog.DiscardHandler))
	g := guardtest.New(t, guard.WithMaxWait(0), guard.WithMaxWaiters(1), quiet)
	var h handler
	calls := serve(t, func(ctx context.Context) error { return h(ctx) }, rules(g.Guard)...)
	for kind, call := range calls {
		for name, c := range map[string]struct {
			handler        handler
			operation, sku string
			held, down     bool
			code           int
			reason         string
			retry          bool
		}{
			"free":              {done, buy, "s3cret", false, false, 0, "", false},
			"another operation": {done, price, "s3cret", false, false, 0, "", false},
			"no rule":           {done, look, "s3cret", true, false, 0, "", false},
			"held":              {done, buy, "s3cret", true, false, 409, "LOCK_HELD", true},
			"held, two routes":  {done, price, "s3cret", true, false, 409, "LOCK_HELD", true},
			"store down":        {done, buy, "s3cret", false, true, 503, "LOCK_UNAVAILABLE", true},
			"no key":            {done, buy, "", false, false, 400, "LOCK_KEY_INVALID", false},
			"another type":      {done, confuse, "s3cret", false, false, 500, "LOCK_MISCONFIGURED", false},
			"a refusal of its own": {
				func(context.Context) error { return &guard.HeldError{Key: "s3cret"} }, buy, "s3cret",
				false, false, 500, "LOCK_HELD", false,
			},
			"a refusal, by Error": {
				func(ctx context.Context) error { return lockmw.Error(ctx, guard.ErrQueueFull) }, look, "s3cret",
				false, false, 500, "LOCK_QUEUE_FULL", false,
			},
			"a deadline's": {
				func(context.Context) error {
					return errors.Join(guard.ErrNotAcquired, context.DeadlineExceeded)
				}, buy, "s3cret",
				false, false, 504, "LOCK_WAIT_ABORTED", false,
			},
		} {
			h = c.handler
			undo := func() {}
			switch {
			case c.held:
				undo = g.Hold(guard.Key("stock", "s3cret"))
			case c.down:
				undo = g.Break()
			}
			e, after := call(t.Context(), c.operation, c.sku)
			undo()
			if c.code != 0 {
				want(t, kind+", "+name, e, after, c.code, c.reason, c.retry)
			} else if e != nil {
				t.Errorf("%s, %s: got %v", kind, name, e)
			}
		}
	}
}

func TestAPanicLeavesTheKeyFree(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	h := func(context.Context) error { panic("own") }
	for kind, call := range serve(t, func(ctx context.Context) error { return h(ctx) }, rules(g.Guard)...) {
		if e, _ := call(t.Context(), buy, "42"); e == nil || e.Code != 500 || e.Reason == "LOCK_LOST" {
			t.Errorf("%s: got %v", kind, e)
		}
		g.Hold(guard.Key("stock", "42"))() // fails if the key is still held
	}
}

func TestALostLeaseEndsTheHandlersContext(t *testing.T) {
	g := guardtest.New(t, guard.WithTTL(3*time.Second), guard.WithLogger(slog.New(slog.DiscardHandler)))
	h := func(ctx context.Context) error {
		g.Lose(guard.Key("stock", "42"))
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for kind, call := range serve(t, h, rules(g.Guard)...) {
		e, after := call(t.Context(), buy, "42")
		want(t, kind, e, after, 500, "LOCK_LOST", false)
	}
}

// waits sends how waits end.
type waits struct {
	guard.NopObserver

	began chan struct{}
	ended chan error
}

func (w waits) WaitStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	w.began <- struct{}{}
	return ctx
}

func (w waits) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) { w.ended <- r.Err }

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) {
	w := waits{began: make(chan struct{}, 1), ended: make(chan error, 1)}
	g := guardtest.New(t, guard.WithMaxWait(time.Hour), guard.WithObserver(w))
	g.Hold(guard.Key("stock", "42"))
	for kind, call := range serve(t, done, rules(g.Guard, lockmw.WithMaxWait(time.Hour))...) {
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { // ends with leave
			defer close(gone)
			_, _ = call(ctx, buy, "42")
		}()
		<-w.began
		leave()
		if err := <-w.ended; !errors.Is(err, guard.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the wait ended with %v", kind, err)
		}
		<-gone
	}
}

// One call contends for the key, one is in line, and one is too many.
func TestOfThreeCallsOneFindsTheQueueFull(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(time.Hour), guard.WithMaxWaiters(1),
		guard.WithLogger(slog.New(slog.DiscardHandler)))
	for kind, call := range serve(t, done, rules(g.Guard, lockmw.WithMaxWait(time.Hour))...) {
		release := g.Hold(guard.Key("stock", "42"))
		type result struct {
			err   *kerrors.Error
			after string
		}
		results := make(chan result)
		for range 3 {
			go func() { // ends with release
				err, after := call(t.Context(), buy, "42")
				results <- result{err, after}
			}()
		}
		r := <-results
		want(t, kind, r.err, r.after, 429, "LOCK_QUEUE_FULL", true)
		release()
		for range 2 {
			if r := <-results; r.err != nil {
				t.Errorf("%s: %v", kind, r.err)
			}
		}
	}
}

func TestACallWaitsForLessThanMaxWait(t *testing.T) {
	var logs bytes.Buffer
	g := guardtest.New(t, guard.WithMaxWait(time.Hour), guard.WithLogger(slog.New(slog.NewTextHandler(&logs, nil))))
	g.Hold(guard.Key("stock", "42"))
	for kind, call := range serve(t, done, rules(g.Guard)...) {
		e, after := call(t.Context(), buy, "42")
		want(t, kind, e, after, 409, "LOCK_HELD", true)
	}
	if n := strings.Count(logs.String(), "waits are shorter"); n != 1 {
		t.Errorf("told %d times:\n%s", n, logs.String())
	}
}

func TestARuleByWhichNothingIsLockedIsFoundBeforeTheStart(t *testing.T) {
	s := grpc.NewServer(grpc.Address("127.0.0.1:0"))
	defer func() { _ = s.Stop(t.Context()) }()
	s.RegisterService(desc(done), nil)
	placed := func(operation string) lockmw.Rule {
		r := lockmw.Key(nil, operation, key)
		lockmw.Server(r)
		return r
	}
	for text, r := range map[string]lockmw.Rule{
		`"/shop.Stock/Bye": the service has no such method`: placed("/shop.Stock/Bye"),
		`"/shop.stock/Buy": there is no such service`:       placed("/shop.stock/Buy"),
		`"/shop.Stock/Buy": no interceptor that is in use`:  lockmw.Key(nil, buy, key),
		`"": it was not made by Key`:                        {},
	} {
		if err := lockmw.Verify(s, placed(look), r); !errors.Is(err, guard.ErrInvalidOption) ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}
