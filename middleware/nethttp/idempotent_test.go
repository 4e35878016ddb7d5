package lockmw_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// shop is a server of net/http with two instances of a route behind Idempotent.
type shop struct {
	*testing.T
	*http.Client

	http2 bool
	url   string
	runs  atomic.Int32
}

// got is a whole answer.
type got struct {
	text            string
	header, trailer http.Header
}

// protocols are the versions of HTTP that servers of net/http speak.
var protocols = map[string]func(s *httptest.Server){
	"HTTP/1.1": (*httptest.Server).Start,
	"HTTP/2.0 with TLS": func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	},
	"HTTP/2.0 without TLS": func(s *httptest.Server) {
		var only http.Protocols
		only.SetUnencryptedHTTP2(true)
		s.Config.Protocols = &only
		s.Start()
		s.Client().Transport.(*http.Transport).Protocols = &only
	},
}

// onEach runs test with a shop for each protocol.
func onEach(t *testing.T, h http.HandlerFunc, test func(s *shop)) {
	t.Helper()
	for name, start := range protocols {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, h, start)
			s.http2 = !strings.HasPrefix(name, "HTTP/1")
			test(s)
		})
	}
}

func newShop(t *testing.T, h http.HandlerFunc, start func(*httptest.Server)) *shop {
	t.Helper()
	s, mux := &shop{T: t}, http.NewServeMux()
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		h(w, r)
	})
	all := memlocker.New()
	for name, l := range map[string]guard.Locker{"one": all, "two": all.Peer()} {
		g, err := guard.New(l, guard.WithTTL(time.Minute), guard.WithMaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		idempotent := lockmw.Idempotent(g, keyfunc.Header("X-User"), time.Hour)
		mux.Handle("POST /"+name+"/", http.StripPrefix("/"+name, idempotent(counted)))
	}
	server := httptest.NewUnstartedServer(mux)
	start(server)
	t.Cleanup(server.Close)
	s.Client, s.url = server.Client(), server.URL
	return s
}

// send sends the order k1 of ann to an instance. The caller closes the answer.
func (s *shop) send(ctx context.Context, instance, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/"+instance+"/orders", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-User", "ann")
	req.Header.Set("Idempotency-Key", "k1")
	return s.Do(req)
}

// order sends the order to an instance, and fails the test unless the answer
// has that status and text in its body. replayed is whether it must be a replay.
// The handler must have run once by then.
func (s *shop) order(instance, body string, status int, text string, replayed bool) got {
	s.Helper()
	resp, err := s.send(s.Context(), instance, body)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	mark := resp.Header.Get("Idempotency-Replayed")
	if err != nil || resp.StatusCode != status || !strings.Contains(string(all), text) || (mark == "true") != replayed {
		s.Errorf("got %d %.200s, %v, replay %q; want %d %.200s, replay %v", resp.StatusCode, all, err, mark,
			status, text, replayed)
	}
	if n := s.runs.Load(); n != 1 {
		s.Errorf("the handler ran %d times, want once", n)
	}
	return got{string(all), resp.Header, resp.Trailer}
}

const gone = "idempotency_answer_gone"

func TestEachVersionOfHTTPGetsTheSameAnswerAgain(t *testing.T) {
	big := strings.Repeat("x", 40_000)
	onEach(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) != 50_000 {
			t.Errorf("the handler read %d bytes, %v", len(body), err)
		}
		w.Header().Set("Location", "/orders/1")
		w.Header().Set("X-Proto", r.Proto)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, big)
	}, func(s *shop) {
		body := strings.Repeat("y", 50_000)
		first := s.order("one", body, http.StatusCreated, big, false)
		if proto := first.header.Get("X-Proto"); (proto == "HTTP/2.0") != s.http2 {
			s.Fatalf("the server speaks %s", proto)
		}
		for _, instance := range []string{"two", "one"} {
			again := s.order(instance, body, http.StatusCreated, big, true)
			if again.text != first.text || again.header.Get("Location") != "/orders/1" {
				s.Errorf("got %d bytes, Location %q", len(again.text), again.header.Get("Location"))
			}
		}
		s.order("two", "other", http.StatusUnprocessableEntity, "idempotency_key_reused", false)
	})
}

// A client reads the first part of a stream while the handler still runs. All of
// the stream is there the next time, and the handler does not run again.
func TestAStreamUnderIdempotentArrivesAsItIsWrittenAndOnlyOnce(t *testing.T) {
	var goOn chan struct{} // closed when the client has read the first part
	onEach(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "part one, ")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		select {
		case <-goOn:
		case <-r.Context().Done():
			t.Error("the client has left before it could read the first part")
		}
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "part two")
	}, func(s *shop) {
		goOn = make(chan struct{})
		first, err := s.send(s.Context(), "one", "10 EUR")
		if err != nil {
			s.Fatal(err)
		}
		defer func() { _ = first.Body.Close() }()
		part := make([]byte, len("part one, "))
		if _, err := io.ReadFull(first.Body, part); err != nil {
			s.Error(err)
		}
		close(goOn)
		if rest, err := io.ReadAll(first.Body); string(rest) != "part two" || err != nil {
			s.Errorf("got %q, %v", rest, err)
		}
		for _, instance := range []string{"two", "one"} {
			if again := s.order(instance, "10 EUR", http.StatusOK, "part one, part two", true); again.text == "" {
				s.Errorf("%s replays nothing", instance)
			}
		}
	})
}

// With HTTP/2 nobody can hijack. A handler that answers in another way then has
// its answer kept.
func TestAHijackedConnectionUnderIdempotentIsNotHijackedAgain(t *testing.T) {
	onEach(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			if !errors.Is(err, http.ErrNotSupported) {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "in another way")
			return
		}
		_, _ = fmt.Fprint(buf, "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 6\r\n\r\nby own")
		_ = buf.Flush()
		_ = conn.Close()
	}, func(s *shop) {
		if s.http2 {
			s.order("one", "10 EUR", http.StatusOK, "in another way", false)
			s.order("two", "10 EUR", http.StatusOK, "in another way", true)
			return
		}
		s.order("one", "10 EUR", http.StatusAccepted, "by own", false)
		s.order("two", "10 EUR", http.StatusConflict, gone, false)
	})
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

func TestTrailersUnderIdempotentAreNotKept(t *testing.T) {
	onEach(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "done")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
	}, func(s *shop) {
		first := s.order("one", "10 EUR", http.StatusOK, "done", false)
		again := s.order("two", "10 EUR", http.StatusOK, "done", true)
		if first.trailer.Get("X-Sum") != "1" || first.trailer.Get("X-Late") != "2" || len(again.trailer) > 0 ||
			again.header.Get("X-Sum") != "" {
			s.Errorf("got the trailers %v, then %v, %v", first.trailer, again.trailer, again.header)
		}
	})
}

// A payment that was made is known, although its client has not waited for it.
func TestTheAnswerForAClientThatHasGoneIsKept(t *testing.T) {
	var leave context.CancelFunc // ends the first client's request
	onEach(t, func(w http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
		_, _ = io.WriteString(w, "done")
	}, func(s *shop) {
		var ctx context.Context
		ctx, leave = context.WithCancel(s.Context())
		if resp, err := s.send(ctx, "one", "10 EUR"); err == nil {
			_ = resp.Body.Close()
			s.Errorf("the client that has gone got %d", resp.StatusCode)
		}
		s.order("two", "10 EUR", http.StatusOK, "done", true)
	})
}

// A proxy flushes what has no length.
func TestTheAnswerOfAProxyIsKept(t *testing.T) {
	runs, long := 0, strings.Repeat("x", 10_000)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs++
		_, _ = io.WriteString(w, long[:4000])
		_, _ = io.WriteString(w, long[4000:])
	}))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	once := lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour)
	proxy := once(httputil.NewSingleHostReverseProxy(target))
	for _, again := range []string{"", "true"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", http.NoBody)
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, r)
		if w.Body.String() != long || w.Header().Get("Idempotency-Replayed") != again || again == "" && !w.Flushed {
			t.Errorf("got %d and %d bytes, replay %q, flushed %v, want replay %q", w.Code, w.Body.Len(),
				w.Header().Get("Idempotency-Replayed"), w.Flushed, again)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}
