package lockmwtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// stay is the whole wait of a waiter. No test takes so long, so a waiter that
// leaves has noticed that its client has gone.
const stay = time.Hour

// RunSockets checks on real connections that waiters whose client has gone
// leave the queue.
func RunSockets(t *testing.T, a Adapter) {
	t.Helper()
	head := "POST " + path + " HTTP/1.1\r\nHost: x\r\n"
	for name, request := range map[string]string{
		"no body":                  head + "\r\n",
		"a body":                   head + "Content-Length: 5\r\n\r\nhello",
		"a body of 64 KiB":         head + "Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 64<<10),
		"a body of unknown length": head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"a body that is asked for": head + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
		"a client that speaks 1.0": strings.Replace(head, "1.1", "1.0", 1) + "Content-Length: 5\r\n\r\nhello",
	} {
		for holder, sameProcess := range map[string]bool{"this process": true, "another process": false} {
			t.Run(fmt.Sprintf("%s, held by %s", name, holder), func(t *testing.T) {
				newQueue(t, a, sameProcess, stay).leave(t, request)
			})
		}
	}
	t.Run("a body too large to read ahead: MaxWait ends the wait", func(t *testing.T) {
		q := newQueue(t, a, false, 50*time.Millisecond)
		conn := q.send(t, head+"Content-Length: 65537\r\n\r\n"+strings.Repeat("x", 100))
		_ = conn.Close()
		if err := q.end(t); !errors.Is(err, guard.ErrNotAcquired) || errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want a wait to its end", err)
		}
	})
	t.Run("a body that breaks off never joins the queue", func(t *testing.T) {
		q := newQueue(t, a, false, stay)
		conn := q.dial(t, head+"Content-Length: 5\r\nConnection: close\r\n\r\nhel")
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d %s", res.StatusCode, body)
		}
	})
	t.Run("HTTP/2, with a body that is still to come", func(t *testing.T) { leaveHTTP2(t, a) })
}

// queue is a server with a held key.
type queue struct {
	guard.NopObserver

	server  *httptest.Server
	started chan struct{} // a wait began; the test receives from it
	ended   chan error    // a wait ended with this error
}

func newQueue(t *testing.T, a Adapter, sameProcess bool, maxWait time.Duration) *queue {
	t.Helper()
	q := &queue{started: make(chan struct{}, 1), ended: make(chan error, 1)}
	locker := memlocker.New()
	g, err := guard.New(locker, guard.WithMaxWait(maxWait))
	if err != nil {
		t.Fatal(err)
	}
	other, err := guard.New(locker.Peer())
	if err != nil {
		t.Fatal(err)
	}
	holder := other
	if sameProcess {
		holder = g
	}
	l, err := holder.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	app := a.Mount(g.With(guard.WithObserver(q)), func(http.ResponseWriter, *http.Request) error {
		t.Error("the handler ran")
		return nil
	}, Lock{Template: template})
	q.server = httptest.NewUnstartedServer(app)
	q.server.EnableHTTP2 = true
	t.Cleanup(func() {
		q.server.Close()
		ctx := context.WithoutCancel(t.Context())
		_ = l.Release(ctx)
		_ = g.Close(ctx)
		_ = other.Close(ctx)
	})
	return q
}

func (q *queue) WaitStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	q.started <- struct{}{}
	return ctx
}

func (q *queue) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) { q.ended <- r.Err }

// dial connects and sends request.
func (q *queue) dial(t *testing.T, request string) net.Conn {
	t.Helper()
	if q.server.URL == "" {
		q.server.Start()
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", q.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}

// send sends request and returns when the request waits.
func (q *queue) send(t *testing.T, request string) net.Conn {
	t.Helper()
	conn := q.dial(t, request)
	select {
	case <-q.started: // on a slow machine the wait may have ended, too
	case <-time.After(time.Minute):
		t.Fatal("the request never came to wait")
	}
	return conn
}

// end returns the error with which the wait ends.
func (q *queue) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-q.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the waiter stays in the queue")
		return nil
	}
}

// leave lets a client send request and go while it waits.
func (q *queue) leave(t *testing.T, request string) {
	t.Helper()
	conn := q.send(t, request)
	_ = conn.Close()
	if err := q.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
}

func leaveHTTP2(t *testing.T, a Adapter) {
	t.Helper()
	q := newQueue(t, a, false, stay)
	q.server.StartTLS()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, client := io.Pipe()
	defer client.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.server.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1) // by the one request
	go func() {
		res, err := q.server.Client().Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		answered <- err
	}()
	select {
	case <-q.started:
	case err := <-answered:
		t.Fatalf("the request did not wait: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the request waits for its body, not for the key")
	}
	cancel()
	if err := q.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
	if err := <-answered; err == nil {
		t.Error("the client got an answer")
	}
}
