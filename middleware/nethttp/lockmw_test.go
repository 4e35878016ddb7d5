package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard/httpguardtest"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(g *guard.Guard, h httpguardtest.Handler, templates ...string) http.Handler {
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil && !lockmw.Error(w, r, err) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for _, template := range slices.Backward(templates) {
		next = lockmw.Key(g, template)(next)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /stock/{sku}", next)
	return mux
}

var adapter = httpguardtest.Adapter{Mount: mount}

func TestTheTable(t *testing.T) { httpguardtest.Run(t, adapter) }

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) {
	httpguardtest.RunSockets(t, adapter)
}

func BenchmarkOverhead(b *testing.B) { httpguardtest.Bench(b, adapter) }

func newGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(memlocker.New(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	return g
}

// hold takes a key until the test ends.
func hold(t *testing.T, g *guard.Guard, key string) {
	t.Helper()
	l, err := g.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(t.Context()) })
}

func quiet(t *testing.T) {
	t.Helper()
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(before) })
}

// serve sends req to a mux whose route /stock/{sku}/buy has h.
func serve(req *http.Request, h http.Handler) *httptest.ResponseRecorder {
	mux := http.NewServeMux()
	mux.Handle("/stock/{sku}/buy", h)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, req)
	return w
}

func buy(sku string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/stock/"+sku+"/buy", nil)
}

func never(t *testing.T) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
}

func nothing(context.Context) error { return nil }

func TestTheErrorHandlerGetsEveryErrorAndTheHandlerNeverRuns(t *testing.T) {
	quiet(t)
	own := errors.New("own")
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("stock", "42"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		key    keyfunc.Func
		req    *http.Request
		status int // if the error handler writes nothing
		err    error
	}{
		{"held", keyfunc.MustParse("stock:{sku}"), buy("42"), http.StatusConflict, guard.ErrNotAcquired},
		{"missing", keyfunc.Query("sku"), buy("42"), http.StatusBadRequest, keyfunc.ErrMissing},
		{"no such parameter", keyfunc.Path("id"), buy("42"), http.StatusInternalServerError, keyfunc.ErrNoSource},
		{"the key function's own", func(*http.Request) (string, error) { return "", own }, buy("42"), http.StatusInternalServerError, own},
		{"client gone", keyfunc.MustParse("stock:{sku}"), buy("7").WithContext(gone), 499, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, write := range []bool{true, false} {
				var got error
				w := serve(c.req, lockmw.KeyFunc(g, c.key, lockmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err error) {
					got = err
					if write {
						w.WriteHeader(http.StatusTeapot)
						_, _ = io.WriteString(w, "own")
					}
				}))(never(t)))
				if !errors.Is(got, c.err) {
					t.Errorf("got %v, want %v", got, c.err)
				}
				if write && (w.Code != http.StatusTeapot || w.Body.String() != "own") || !write && (w.Code != c.status || w.Body.Len() > 0) {
					t.Errorf("written %v: got %d %s, want %d", write, w.Code, w.Body, c.status)
				}
			}
		})
	}
}

func TestTheErrorHandlerServesErrorAndMiddlewareInside(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("order"))
	own := lockmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusTeapot) })
	outer := lockmw.Key(g, "stock:{sku}", own)
	for name, inner := range map[string]http.Handler{
		"Error": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !lockmw.Error(w, r, g.Do(r.Context(), guard.Key("order"), nothing)) {
				t.Error("Error does not know the error")
			}
		}),
		"middleware": lockmw.Key(g, "order")(never(t)),
	} {
		if w := serve(buy("42"), outer(inner)); w.Code != http.StatusTeapot {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	// A middleware outside the one with the error handler keeps its own answers.
	w := serve(buy("42"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if !lockmw.Error(w, r, guard.ErrLeaseLost) {
			t.Error("Error does not know the error")
		}
	}))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestErrorLeavesOtherErrorsAlone(t *testing.T) {
	for _, err := range []error{nil, errors.New("own"), context.Canceled, fmt.Errorf("query: %w", context.DeadlineExceeded)} {
		w := serve(buy("42"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if lockmw.Error(w, r, err) {
				t.Errorf("%v was answered", err)
			}
		}))
		if w.Body.Len() > 0 {
			t.Errorf("%v: got %s", err, w.Body)
		}
	}
}

func TestErrorAfterTheFirstByteWritesNothing(t *testing.T) {
	called := false
	own := lockmw.WithErrorHandler(func(http.ResponseWriter, *http.Request, error) { called = true })
	w := serve(buy("42"), lockmw.Key(newGuard(t), "stock:{sku}", own)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "done")
		if !lockmw.Error(w, r, guard.ErrLeaseLost) {
			t.Error("Error does not know the error")
		}
	})))
	if w.Code != http.StatusOK || w.Body.String() != "done" || called {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAKeyFunctionsOwnErrorIsAPlain500(t *testing.T) {
	quiet(t)
	failed := func(*http.Request) (string, error) { return "", errors.New("s3cret") }
	w := serve(buy("42"), lockmw.KeyFunc(newGuard(t), failed)(never(t)))
	if w.Code != http.StatusInternalServerError || w.Body.String() != "Internal Server Error\n" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAKeyFunctionWithoutAKeyIsOurMistake(t *testing.T) {
	quiet(t)
	w := serve(buy("42"), lockmw.KeyFunc(newGuard(t), func(*http.Request) (string, error) { return "", nil })(never(t)))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "lock_misconfigured") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestASkippedRequestRunsWithoutALock(t *testing.T) {
	g := newGuard(t, guard.WithMaxWait(0))
	hold(t, g, guard.Key("stock", "42"))
	h := lockmw.Key(g, "stock:{sku}", lockmw.WithSkipper(lockmw.SafeMethods))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, found := guard.LeaseFrom(r.Context()); found {
			t.Errorf("%s: there is a lease", r.Method)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	for method, status := range map[string]int{
		"GET": http.StatusNoContent, "HEAD": http.StatusNoContent, "OPTIONS": http.StatusNoContent, "TRACE": http.StatusNoContent,
		"POST": http.StatusConflict, "PUT": http.StatusConflict, "PATCH": http.StatusConflict, "DELETE": http.StatusConflict, "PURGE": http.StatusConflict,
	} {
		req := buy("42")
		req.Method = method
		if w := serve(req, h); w.Code != status {
			t.Errorf("%s: got %d, want %d", method, w.Code, status)
		}
	}
}

// Around a whole mux there is no route yet: its parameters are unknown, everything else works.
func TestALockAroundAMux(t *testing.T) {
	quiet(t)
	g := newGuard(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /stock/{sku}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	ask := func(h http.Handler, method, target, tenant string) (int, *http.Request) {
		r := httptest.NewRequest(method, target, nil)
		if tenant != "" {
			r.Header.Set("X-Tenant", tenant)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, r
	}
	path := lockmw.Key(g, "stock:{sku}")(mux)
	header := lockmw.Key(g, "{header.X-Tenant}", lockmw.WithSkipper(func(r *http.Request) bool { return r.URL.Path == "/healthz" }))(mux)
	for _, c := range []struct {
		h                      http.Handler
		method, target, tenant string
		status                 int
	}{
		{path, "POST", "/stock/42", "", http.StatusInternalServerError},
		{path, "GET", "/healthz", "", http.StatusInternalServerError},
		{header, "POST", "/stock/42", "acme", http.StatusNoContent},
		{header, "POST", "/stock/42", "", http.StatusBadRequest},
		{header, "GET", "/healthz", "", http.StatusNoContent},
		{header, "GET", "/unknown", "acme", http.StatusNotFound},
		{header, "GET", "/unknown", "", http.StatusBadRequest},
	} {
		if got, _ := ask(c.h, c.method, c.target, c.tenant); got != c.status {
			t.Errorf("%s %s %s: got %d, want %d", c.method, c.target, c.tenant, got, c.status)
		}
	}
	if _, r := ask(header, "POST", "/stock/42", "acme"); r.Pattern != "POST /stock/{sku}" {
		t.Errorf("the middleware outside sees the pattern %q", r.Pattern)
	}
}

func TestTheFormIsHandedBack(t *testing.T) {
	body := strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\ncontent\r\n--x--\r\n")
	req := httptest.NewRequest(http.MethodPost, "/stock/42/buy", body)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	served := req
	h := lockmw.Key(newGuard(t), "stock:{sku}")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, _, err := r.FormFile("a"); err != nil {
			t.Error(err)
		}
		served = r
	}))
	if h.ServeHTTP(httptest.NewRecorder(), withPath(req)); served == req || req.MultipartForm == nil || req.MultipartForm != served.MultipartForm {
		t.Error("the server will not find the temporary files of the form")
	}
}

func withPath(r *http.Request) *http.Request {
	r.SetPathValue("sku", "42")
	return r
}

func TestStartUpMistakesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"bad template":      func() { lockmw.Key(nil, "stock:{a}{b}") },
		"nil keyfunc.Func":  func() { lockmw.KeyFunc(nil, nil) },
		"nil error handler": func() { lockmw.WithErrorHandler(nil) },
		"nil skipper":       func() { lockmw.WithSkipper(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestAnAdapterStaysThin(t *testing.T) {
	source, err := os.ReadFile("lockmw.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines > 120 {
		t.Errorf("lockmw.go has %d lines: what all adapters need belongs into internal/httpguard", lines)
	}
}

func TestTheAdapterLinksNoFramework(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{range .Deps}}{{.}}\n{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("go list gives %d packages", len(deps))
	}
	for _, dep := range deps {
		host, _, _ := strings.Cut(dep, "/")
		if strings.Contains(host, ".") && !strings.HasPrefix(dep, "github.com/go-lockguard/guard") && host != "vendor" {
			t.Errorf("net/http users link %s", dep)
		}
	}
}
