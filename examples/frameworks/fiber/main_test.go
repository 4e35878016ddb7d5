package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),    // never ends
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2")) // within 10 s
}

// What a real server adds to the table of the adapter.

var key = guard.Key("stock", "42")

// serve serves an app whose handler is h, and returns its address.
func serve(t *testing.T, g *guardtest.Guard, h fiber.Handler) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := app(g.Guard, h)
	served := make(chan error, 1)
	go func() { served <- a.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }() // ends with Shutdown
	t.Cleanup(func() {
		if err := errors.Join(a.ShutdownWithTimeout(10*time.Second), <-served); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func post(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestTwoRoutesShareOneKey(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	addr := serve(t, g, deduct)
	for _, path := range []string{"/skus/42/deduct", "/skus/42/price"} {
		if status, body := post(t, addr, path); status != http.StatusNoContent {
			t.Errorf("%s: got %d %s", path, status, body)
		}
		release := g.Hold(key)
		if status, body := post(t, addr, path); status != http.StatusConflict {
			t.Errorf("%s, held: got %d %s", path, status, body)
		}
		release()
	}
}

// As the package says: fasthttp calls a stream's function after the handlers.
func TestAStreamRunsWithoutTheKey(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	addr := serve(t, g, func(c fiber.Ctx) error {
		return c.SendStreamWriter(func(w *bufio.Writer) {
			release := g.Hold(key) // would fail the test
			defer release()
			_, _ = w.WriteString("streamed")
		})
	})
	if status, body := post(t, addr, "/skus/42/deduct"); status != http.StatusOK || body != "streamed" {
		t.Errorf("got %d %s", status, body)
	}
}

// waits tells when waits begin and end.
type waits struct {
	guard.NopObserver

	began, ended chan struct{}
}

func (w waits) WaitStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	w.began <- struct{}{}
	return ctx
}

func (w waits) WaitEnd(context.Context, guard.WaitInfo, guard.WaitResult) { w.ended <- struct{}{} }

func TestAWaiterWhoseClientHasGoneStaysUntilMaxWait(t *testing.T) {
	w := waits{began: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	g := guardtest.New(t, guard.WithMaxWait(100*time.Millisecond), guard.WithObserver(w))
	addr := serve(t, g, deduct)
	g.Hold(key)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, _ = io.WriteString(conn, "POST /skus/42/deduct HTTP/1.1\r\nHost: x\r\n\r\n")
	<-w.began
	_ = conn.Close()
	<-w.ended
	if d := time.Since(start); d < 100*time.Millisecond {
		t.Errorf("it left after %v: the package says that it stays", d)
	}
}
