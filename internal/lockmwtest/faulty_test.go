package lockmwtest_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/internal/lockmwtest"
)

// fault is one way in which an adapter's Idempotent can be wrong, with the rows
// of RunIdempotent that must see it. The adapter is that of net/http. Each
// function that is not nil changes a part of it.
type fault struct {
	name     string
	caughtBy []string

	lock    func(l *lockmwtest.Lock) // the settings of Idempotent
	guard   func(g *guard.Guard) *guard.Guard
	outside func(g *guard.Guard, next http.Handler) http.Handler // around Idempotent
	inside  func(next http.Handler) http.Handler                 // around the handler
}

// mount is the Mount of an adapter with the fault.
func (f fault) mount(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	app := handler(h)
	for _, l := range slices.Backward(locks) {
		if l.TTL == 0 {
			app = verbs.Chain(g, l)[0](app)
			continue
		}
		app = f.around(g, l, app)
	}
	mux := http.NewServeMux()
	mux.Handle("/stock/{sku}", app)
	return mux
}

// around returns next behind an Idempotent with the fault.
func (f fault) around(g *guard.Guard, l lockmwtest.Lock, next http.Handler) http.Handler {
	if f.lock != nil {
		f.lock(&l)
	}
	if f.guard != nil {
		g = f.guard(g)
	}
	if f.inside != nil {
		next = f.inside(next)
	}
	app := verbs.Chain(g, l)[0](next)
	if f.outside != nil {
		app = f.outside(g, app)
	}
	return app
}

// server serves a request and returns the whole answer.
type server func(r *http.Request) *httptest.ResponseRecorder

// exchanged is for faults that change whole requests and answers.
func exchanged(f func(g *guard.Guard, r *http.Request, serve server) *httptest.ResponseRecorder,
) func(*guard.Guard, http.Handler) http.Handler {
	return func(g *guard.Guard, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got := f(g, r, func(r *http.Request) *httptest.ResponseRecorder {
				r = r.Clone(r.Context())
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				w := httptest.NewRecorder()
				next.ServeHTTP(w, r)
				return w
			})
			maps.Copy(w.Header(), got.Header())
			w.WriteHeader(got.Code)
			_, _ = w.Write(got.Body.Bytes())
		})
	}
}

// answered is for faults that change answers.
func answered(change func(w *httptest.ResponseRecorder)) func(*guard.Guard, http.Handler) http.Handler {
	return exchanged(func(_ *guard.Guard, r *http.Request, serve server) *httptest.ResponseRecorder {
		w := serve(r)
		change(w)
		return w
	})
}

// asked is for faults that change requests.
func asked(change func(r *http.Request)) func(*guard.Guard, http.Handler) http.Handler {
	return func(_ *guard.Guard, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r = r.Clone(r.Context())
			change(r)
			next.ServeHTTP(w, r)
		})
	}
}

// keepsToo keeps the answers that keep reports too, for all instances.
func keepsToo(keep func(w *httptest.ResponseRecorder) bool) func(*guard.Guard, http.Handler) http.Handler {
	var kept sync.Map // of requests; each row has a context of its own
	return exchanged(func(_ *guard.Guard, r *http.Request, serve server) *httptest.ResponseRecorder {
		name := [3]any{r.Context(), r.Header.Get("X-User"), r.Header.Get("Idempotency-Key")}
		if w, found := kept.Load(name); found {
			first, again := w.(*httptest.ResponseRecorder), httptest.NewRecorder()
			maps.Copy(again.Header(), first.Header())
			again.Header().Set("Idempotency-Replayed", "true")
			again.WriteHeader(first.Code)
			_, _ = again.Write(first.Body.Bytes())
			return again
		}
		w := serve(r)
		if keep(w) {
			kept.Store(name, w)
		}
		return w
	})
}

// forgets keeps no answer that drop reports.
func forgets(drop func(w *httptest.ResponseRecorder) bool) func(*guard.Guard, http.Handler) http.Handler {
	return exchanged(func(g *guard.Guard, r *http.Request, serve server) *httptest.ResponseRecorder {
		w := serve(r)
		if drop(w) {
			forget(g, r)
		}
		return w
	})
}

func forget(g *guard.Guard, r *http.Request) {
	_, _ = g.Forget(r.Context(), guard.Key("idempotent", r.Header.Get("X-User"), r.Header.Get("Idempotency-Key")))
}

// runsAgain runs a request again, in place of an answer that has text.
func runsAgain(text string) func(*guard.Guard, http.Handler) http.Handler {
	return exchanged(func(g *guard.Guard, r *http.Request, serve server) *httptest.ResponseRecorder {
		w := serve(r)
		if strings.Contains(w.Body.String(), text) {
			forget(g, r)
			w = serve(r)
		}
		return w
	})
}

func replayed(w *httptest.ResponseRecorder) bool { return w.Header().Get("Idempotency-Replayed") != "" }

type hiddenKey struct{}

// hides shows Idempotent the request that change makes. The handler gets the
// whole one.
func hides(change func(r *http.Request)) (
	outside func(*guard.Guard, http.Handler) http.Handler, inside func(http.Handler) http.Handler,
) {
	outside = func(_ *guard.Guard, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen := r.Clone(context.WithValue(r.Context(), hiddenKey{}, r))
			change(seen)
			next.ServeHTTP(w, seen)
		})
	}
	inside = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			whole, _ := r.Context().Value(hiddenKey{}).(*http.Request)
			next.ServeHTTP(w, whole.WithContext(r.Context()))
		})
	}
	return outside, inside
}

// blind is an adapter whose fingerprint leaves a part of the request out.
func blind(name string, change func(r *http.Request)) fault {
	outside, inside := hides(change)
	return fault{
		name: name, caughtBy: []string{"a key that was used for another request"},
		outside: outside, inside: inside,
	}
}

// writers is for faults inside of what holds the answer back.
func writers(wrap func(w http.ResponseWriter) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrap(w), r) })
	}
}

// eager flushes whatever is written.
type eager struct{ http.ResponseWriter }

func (w eager) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.Flush()
	return n, err
}

func (w eager) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// silent sends no informational answers.
type silent struct{ http.ResponseWriter }

func (w silent) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

func (w silent) WriteHeader(status int) {
	if status >= 200 {
		w.ResponseWriter.WriteHeader(status)
	}
}

// hasty begins the answer when an informational one is sent.
type hasty struct{ http.ResponseWriter }

func (w hasty) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if status < 200 {
		w.ResponseWriter.WriteHeader(http.StatusNoContent)
	}
}

func (w hasty) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

type serversKey struct{}

// reachable lets digs find the server's own writer.
func reachable(_ *guard.Guard, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serversKey{}, w)))
	})
}

// digs gives the handler a writer that has found the server's own.
func digs(wrap func(b below) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			server, _ := r.Context().Value(serversKey{}).(http.ResponseWriter)
			next.ServeHTTP(wrap(below{w, server}), r)
		})
	}
}

// below has the server's own writer below it.
type below struct {
	http.ResponseWriter

	server http.ResponseWriter
}

func (w below) Unwrap() http.ResponseWriter { return w.server }

func (w below) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// deep takes over the connection of the server's own writer.
type deep struct{ below }

func (w deep) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.server).Hijack()
}

// endless announces no length.
type endless struct{ http.ResponseWriter }

func (w endless) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

func (w endless) Write(b []byte) (int, error) {
	w.Header().Del("Content-Length")
	return w.ResponseWriter.Write(b)
}

// setting sets again what a middleware outside has set, in other words.
type setting struct{ http.ResponseWriter }

func (w setting) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

func (w setting) Write(b []byte) (int, error) {
	if h := w.Header(); h.Get("Content-Encoding") != "" {
		h.Add("Content-Encoding", "identity")
	}
	return w.ResponseWriter.Write(b)
}

// refusals replaces what Idempotent learns of refusals, once a handler knows of
// one.
func refusals(change func(r *ctxkey.Refusal) *ctxkey.Refusal) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := ctxkey.WithRefusal(r.Context(), change(ctxkey.RefusalIn(r.Context())))
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// stopsGoexit runs the handler in a goroutine, so a Goexit ends only that.
func stopsGoexit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var raised any
		done := make(chan struct{}) // closed by the goroutine, after raised is set
		go func() {
			defer close(done)
			defer func() { raised = recover() }()
			next.ServeHTTP(w, r)
		}()
		if <-done; raised != nil {
			panic(raised)
		}
	})
}

func quietly(g *guard.Guard) *guard.Guard {
	return g.With(guard.WithLogger(slog.New(slog.DiscardHandler)))
}
