package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeromicro/go-zero/core/conf"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/proc"
	"github.com/zeromicro/go-zero/rest"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// A server of go-zero returns from Start only when the process ends.
var started sync.WaitGroup

func TestMain(m *testing.M) {
	code := m.Run()
	proc.Shutdown()
	started.Wait()
	os.Exit(code)
}

var key = guard.Key("stock", "42")

// serve serves the routes with h as their handler, behind go-zero's own
// timeout, and returns the address. The connection has no time limits, because
// go-zero's leave only a tenth of the timeout for the answer.
func serve(t *testing.T, g *guardtest.Guard, timeout time.Duration, h http.HandlerFunc) (base string) {
	t.Helper()
	return serveWithin(t, g, timeout, 0, h)
}

// serveWithin is serve with a WriteTimeout.
func serveWithin(
	t *testing.T, g *guardtest.Guard, timeout, writeTimeout time.Duration, h http.HandlerFunc,
) (base string) {
	t.Helper()
	var c rest.RestConf
	if err := conf.LoadFromYamlBytes([]byte("{Name: stock, Host: 127.0.0.1, Port: 0}"), &c); err != nil {
		t.Fatal(err)
	}
	if c.Timeout != 3000 {
		t.Errorf("go-zero's default timeout is %d ms now: main.go says 3,000", c.Timeout)
	}
	c.Timeout = timeout.Milliseconds()
	at, servers := make(chan net.Addr, 1), make(chan *http.Server, 1)
	routes := server(c, g.Guard, h)
	routes.AddRoute(rest.Route{
		Method: http.MethodPost, Path: "/skus/:sku/watch", Handler: vars(lockmw.Key(g.Guard, "stock:{sku}")(h)),
	}, rest.WithSSE())
	started.Go(func() { // ends with proc.Shutdown
		routes.StartWithOpts(func(s *http.Server) {
			logx.Disable() // the server has set it up again
			if s.WriteTimeout != timeout*11/10 {
				t.Errorf("go-zero's WriteTimeout is %v for %v: docs/frameworks.md says a tenth longer",
					s.WriteTimeout, timeout)
			}
			s.WriteTimeout, s.ReadTimeout = writeTimeout, 0
			s.BaseContext = func(l net.Listener) context.Context {
				at <- l.Addr()
				return context.WithoutCancel(t.Context())
			}
			servers <- s
		})
	})
	s := <-servers
	t.Cleanup(func() { _ = s.Shutdown(context.WithoutCancel(t.Context())) })
	return "http://" + (<-at).String()
}

// answer is what a client got; nothing if it left.
type answer struct {
	status           int
	body, retryAfter string
}

func post(ctx context.Context, t *testing.T, url string) answer {
	t.Helper()
	return send(t, request(ctx, t, url))
}

// stream is post for a client that asks for events.
func stream(ctx context.Context, t *testing.T, url string) answer {
	t.Helper()
	req := request(ctx, t, url)
	req.Header.Set("Accept", "text/event-stream")
	return send(t, req)
}

func request(ctx context.Context, t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	return req
}

func send(t *testing.T, req *http.Request) answer {
	t.Helper()
	res, err := new(http.Client).Do(req)
	if err != nil {
		return answer{} // such as EOF
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, string(text), res.Header.Get("Retry-After")}
}

func want(t *testing.T, what string, got answer, status int, code string) {
	t.Helper()
	if got.status != status || !strings.Contains(got.body, code) ||
		(got.retryAfter != "") != (code == "lock_held" || code == "lock_unavailable" || code == "lock_queue_full") {
		t.Errorf("%s: got %+v, want %d %s", what, got, status, code)
	}
}

var quiet = guard.WithLogger(slog.New(slog.DiscardHandler))

func TestTwoRoutesShareOneKey(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), quiet)
	base := serve(t, g, 3*time.Second, deduct)
	for _, path := range []string{"/skus/42/deduct", "/skus/42/price"} {
		got := post(t.Context(), t, base+path)
		want(t, path, got, http.StatusNoContent, "")
		release := g.Hold(key)
		got = post(t.Context(), t, base+path)
		want(t, path+", held", got, http.StatusConflict, "lock_held")
		release()
		mend := g.Break()
		got = post(t.Context(), t, base+path)
		want(t, path+", store down", got, http.StatusServiceUnavailable, "lock_unavailable")
		mend()
	}
}

// The answer is the guard's if MaxWait is below go-zero's timeout. Otherwise it
// is a bare 503, and the log says why.
func TestMaxWaitMustBeBelowTheTimeout(t *testing.T) {
	var log strings.Builder // of one request at a time
	g := guardtest.New(t, guard.WithMaxWait(100*time.Millisecond), quiet)
	g.Hold(key)
	got := post(t.Context(), t, serve(t, g, time.Minute, deduct)+"/skus/42/deduct")
	want(t, "below", got, http.StatusConflict, "lock_held")

	ended := make(chan struct{}, 1)
	told := guard.WithLogger(slog.New(tells{slog.NewTextHandler(&log, nil), ended}))
	g = guardtest.New(t, guard.WithMaxWait(10*time.Second), told)
	g.Hold(key)
	got = post(t.Context(), t, serve(t, g, 2*time.Second, deduct)+"/skus/42/deduct")
	if got.status != http.StatusServiceUnavailable || strings.Contains(got.body, "lock_") {
		t.Errorf("above: got %+v: main.go says a bare 503", got)
	}
	<-ended
	if !strings.Contains(log.String(), "the request's deadline ends the wait before MaxWait") {
		t.Errorf("logged %s", log.String())
	}
}

// tells sends after each line of a log.
type tells struct {
	slog.Handler
	logged chan struct{}
}

func (h tells) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	h.logged <- struct{}{}
	return err
}

func TestAPanicLeavesTheKeyFree(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	base := serve(t, g, 3*time.Second, func(http.ResponseWriter, *http.Request) { panic("own") })
	want(t, "panic", post(t.Context(), t, base+"/skus/42/deduct"), http.StatusInternalServerError, "")
	g.Hold(key)() // fails if the key is still held
}

func TestALostLeaseIsAnswered(t *testing.T) {
	g := guardtest.New(t, guard.WithTTL(3*time.Second), quiet)
	base := serve(t, g, time.Minute, func(_ http.ResponseWriter, r *http.Request) {
		g.Lose(key)
		<-r.Context().Done()
	})
	got := post(t.Context(), t, base+"/skus/42/deduct")
	want(t, "lost", got, http.StatusInternalServerError, "lock_lost")
}

// ends tells when waits begin and end.
type ends struct {
	guard.NopObserver

	began, ended chan struct{}
}

func (e ends) WaitStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	e.began <- struct{}{}
	return ctx
}

func (e ends) WaitEnd(context.Context, guard.WaitInfo, guard.WaitResult) { e.ended <- struct{}{} }

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) {
	w := ends{began: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	g := guardtest.New(t, guard.WithMaxWait(time.Hour), guard.WithObserver(w), quiet)
	base := serve(t, g, 2*time.Hour, deduct)
	g.Hold(key)
	ctx, leave := context.WithCancel(t.Context())
	go func() { // ends with the wait
		<-w.began
		leave()
	}()
	if got := post(ctx, t, base+"/skus/42/deduct"); got.status != 0 {
		t.Errorf("got %+v", got)
	}
	<-w.ended
}

// go-zero answers when the time is over. A handler that does not heed its
// context goes on, and is still alone with the key.
func TestAHandlerThatOutlivesItsAnswerKeepsTheKey(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), quiet)
	goOn, ended := make(chan struct{}), make(chan struct{})
	base := serve(t, g, 3*time.Second, func(_ http.ResponseWriter, r *http.Request) {
		defer close(ended)
		<-r.Context().Done()
		<-goOn
	})
	got := post(t.Context(), t, base+"/skus/42/deduct")
	if got.status != http.StatusServiceUnavailable || strings.Contains(got.body, "lock_") {
		t.Errorf("got %+v: docs/frameworks.md says a bare 503", got)
	}
	if l, err := g.TryAcquire(t.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
		t.Errorf("the key is free while the handler runs: %v, %v", l, err)
	}
	close(goOn)
	<-ended
	g.Hold(key)() // fails if the key is still held
}

// A request for events has no timeout, but the connection has one.
func TestAStreamBeyondTheWriteTimeoutIsCutOffUnlessTheRouteSaysSSE(t *testing.T) {
	const writeTimeout = 100 * time.Millisecond
	g := guardtest.New(t, guard.WithMaxWait(0), quiet)
	base := serveWithin(t, g, time.Hour, writeTimeout, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * writeTimeout)
		if _, locked := guard.LeaseOf(r.Context(), key); !locked {
			t.Error("no lease")
		}
		_, _ = io.WriteString(w, "data: 1\n\n")
	})
	if got := stream(t.Context(), t, base+"/skus/42/deduct"); got.status != 0 {
		t.Errorf("without WithSSE: got %+v: docs/frameworks.md says EOF", got)
	}
	want(t, "with WithSSE", stream(t.Context(), t, base+"/skus/42/watch"), http.StatusOK, "data: 1")
	g.Hold(key)() // fails if the key is still held
}

// A stream has the key until its handler returns.
func TestAStreamIsSentUnderTheLease(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), quiet)
	end := make(chan struct{})
	base := serve(t, g, time.Hour, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: 1\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-end
		_, _ = io.WriteString(w, "data: 2\n\n")
	})
	req := request(t.Context(), t, base+"/skus/42/watch")
	req.Header.Set("Accept", "text/event-stream")
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, len("data: 1\n\n"))
	if _, err := io.ReadFull(res.Body, first); err != nil {
		t.Error(err)
	}
	want(t, "meanwhile", stream(t.Context(), t, base+"/skus/42/watch"), http.StatusConflict, "lock_held")
	close(end)
	if rest, err := io.ReadAll(res.Body); err != nil || string(first)+string(rest) != "data: 1\n\ndata: 2\n\n" {
		t.Errorf("got %q %q, %v", first, rest, err)
	}
	g.Hold(key)() // fails if the key is still held
}
