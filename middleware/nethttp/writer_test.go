package lockmw_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// guarded serves h on a real server behind the lock.
func guarded(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(lockmw.Static(newGuard(t), "all")(h))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *httptest.Server) (status int, body string) {
	t.Helper()
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// After these calls the response has begun, and the middleware must not answer.
// Without them it must.
func TestItIsKnownWhetherTheResponseHasBegun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("done"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		begin  func(w http.ResponseWriter, r *http.Request)
		status int
		body   string // "" means a problem
	}{
		"nothing": {func(http.ResponseWriter, *http.Request) {}, 500, ""},
		"headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1")
		}, 500, ""},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }, 500, ""},
		"no deadline": {func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		}, 500, ""},
		"empty copy": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, iotest.ErrReader(io.EOF))
		}, 500, ""},
		"WriteHeader": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, 202, "-"},
		"Write":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("done")) }, 200, "done"},
		"empty Write": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }, 200, "-"},
		"WriteString": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }, 200, "done"},
		"Copy": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(strings.NewReader("done"), 9))
		}, 200, "done"},
		"ServeFile": {func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }, 200, "done"},
		"Flush":     {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200, "-"},
		"flush by rc": {func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
		}, 200, "-"},
		"wrapped": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(unwrapper{w}, "done")
		}, 200, "done"},
		"rc, wrapped": {func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(unwrapper{w}).Flush()
		}, 200, "-"},
		"Hijack": {hijack(func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter,
			error,
		) {
			return w.(http.Hijacker).Hijack()
		}), 200, "done"},
		"hijack by rc": {hijack(func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
			return http.NewResponseController(w).Hijack()
		}), 200, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			s := guarded(t, func(w http.ResponseWriter, r *http.Request) {
				c.begin(w, r)
				if !lockmw.Error(unwrapper{w}, r, guard.ErrLeaseLost) {
					t.Error("Error does not know the error")
				}
			})
			status, body := get(t, s)
			problem := strings.Contains(body, "lock_lost")
			if status != c.status || problem != (c.body == "") || !problem && body != strings.Trim(c.body, "-") {
				t.Errorf("got %d %q", status, body)
			}
		})
	}
}

// The handler reads a body that never comes. Only the server's limit ends that.
func TestReadTimeoutFreesTheKeyOfAClientThatSendsNothing(t *testing.T) {
	g, ended := newGuard(t), make(chan error, 1) // by the handler
	s := httptest.NewUnstartedServer(lockmw.Static(g, "all")(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
		})))
	s.Config.ReadTimeout = 2 * time.Second // for the head, too, on a busy machine
	s.Start()
	defer s.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the read ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the handler still reads")
	}
	if err := g.Do(t.Context(), "all", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

// A middleware outside whose writer knows only where it passes on hides that a
// connection can be taken over, but not from a controller.
func TestAHijackThroughAWrapperOutsideIsNotRepeated(t *testing.T) {
	runs := 0
	pay := lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour)(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			runs++
			hijack(func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
				return http.NewResponseController(w).Hijack()
			})(w, r)
		}))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pay.ServeHTTP(unwrapper{w}, r)
	}))
	defer s.Close()
	for _, status := range []int{http.StatusOK, http.StatusConflict} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		res, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != status || runs != 1 {
			t.Errorf("got %d, want %d; %d runs", res.StatusCode, status, runs)
		}
	}
}

func TestTrailersUnderIdempotentAreSentOnceAndNotKept(t *testing.T) {
	s := httptest.NewServer(lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour,
		httpopt.WithIdempotencyKey(keyfunc.Static("k")))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "done")
		w.Header().Set("X-Sum", "1")
	})))
	defer s.Close()
	for _, sum := range []string{"1", ""} {
		res, err := s.Client().Post(s.URL, "text/plain", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body) // the trailers follow
		_ = res.Body.Close()
		if string(body) != "done" || res.Trailer.Get("X-Sum") != sum || sum == "" && res.Header.Get("X-Sum") != "" {
			t.Errorf("got %q, trailers %v, want %q", body, res.Trailer, sum)
		}
	}
}

// unwrapper is another middleware's writer.
type unwrapper struct{ http.ResponseWriter }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func hijack(take func(http.ResponseWriter) (net.Conn, *bufio.ReadWriter,
	error),
) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := take(w)
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone")
	}
}

type (
	plain    struct{ http.ResponseWriter }
	flushing struct {
		http.ResponseWriter
		http.Flusher
	}
	hijacking struct {
		http.ResponseWriter
		http.Hijacker
	}
	both struct {
		http.ResponseWriter
		http.Flusher
		http.Hijacker
	}
)

func TestAWriterCanDoWhatTheOneUnderneathCan(t *testing.T) {
	rec := httptest.NewRecorder()
	conn := hijacker{}
	for name, w := range map[string]http.ResponseWriter{
		"neither": plain{rec}, "flusher": flushing{rec, rec}, "hijacker": hijacking{rec, conn},
		"both": both{rec, rec, conn},
	} {
		_, wantFlush := w.(http.Flusher)
		_, wantHijack := w.(http.Hijacker)
		ran := false
		lockmw.Static(newGuard(t), "all")(http.HandlerFunc(func(in http.ResponseWriter, _ *http.Request) {
			ran = true
			_, flush := in.(http.Flusher)
			h, takes := in.(http.Hijacker)
			if flush != wantFlush || takes != wantHijack {
				t.Errorf("%s: flusher %v, hijacker %v", name, flush, takes)
			}
			if takes {
				if _, _, err := h.Hijack(); err == nil {
					t.Errorf("%s: the error is lost", name)
				}
			}
			if err := http.NewResponseController(in).Flush(); (err == nil) != wantFlush {
				t.Errorf("%s: flushing gives %v", name, err)
			}
			if _, ok := in.(io.ReaderFrom); !ok {
				t.Errorf("%s: no ReaderFrom", name)
			}
		})).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		if !ran {
			t.Errorf("%s: the handler did not run", name)
		}
	}
}

type hijacker struct{}

func (hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrHijacked }
