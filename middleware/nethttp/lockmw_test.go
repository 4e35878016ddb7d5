package lockmw_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil && !lockmw.Error(w, r, err) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for _, lock := range slices.Backward(verbs.Chain(g, locks...)) {
		next = lock(next)
	}
	mux := http.NewServeMux()
	mux.Handle("/stock/{sku}", next)
	return mux
}

var verbs = lockmwtest.Verbs[func(http.Handler) http.Handler]{
	Answers: lockmw.Answers, Key: lockmw.Key, Static: lockmw.Static, KeyFunc: lockmw.KeyFunc, Keys: lockmw.Keys,
	KeysFunc: lockmw.KeysFunc, Idempotent: lockmw.Idempotent, SkipSafe: lockmw.WithSkipper(lockmw.SafeMethods),
	OnError: func(f func(http.ResponseWriter, *http.Request, error)) httpopt.AnswerOption {
		return lockmw.WithErrorHandler(f)
	},
	ReplayHook: func(f func()) httpopt.IdempotentOption {
		return lockmw.WithReplayHook(func(*http.Request) { f() })
	},
}

var adapter = lockmwtest.Adapter{Mount: mount}

func TestTheTable(t *testing.T) { lockmwtest.Run(t, adapter) }

func TestTheTableOfIdempotent(t *testing.T) { lockmwtest.RunIdempotent(t, adapter) }

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) {
	lockmwtest.RunSockets(t, adapter)
}

func BenchmarkOverhead(b *testing.B) { lockmwtest.Bench(b, adapter) }

func newGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.New(t, memlocker.New(), opts...)
}

// serve sends req to a mux with h on its route /stock/{sku}/buy.
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

func TestErrorAfterTheFirstByteWritesNothing(t *testing.T) {
	called := false
	own := lockmw.WithErrorHandler(func(http.ResponseWriter, *http.Request, error) { called = true })
	w := serve(buy("42"), lockmw.Key(newGuard(t), "stock:{sku}",
		own)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	failed := func(*http.Request) (string, error) { return "", errors.New("s3cret") }
	w := serve(buy("42"), lockmw.KeyFunc(newGuard(t), failed)(never(t)))
	if w.Code != http.StatusInternalServerError || w.Body.String() != "Internal Server Error\n" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// Around a whole mux there is no route yet, so its parameters are unknown.
// Everything else works.
func TestALockAroundAMux(t *testing.T) {
	g := newGuard(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /stock/{sku}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
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
	header := lockmw.Key(g, "{header.X-Tenant}",
		lockmw.WithSkipper(func(r *http.Request) bool { return r.URL.Path == "/healthz" }))(mux)
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

// If the router tells no pattern, only the path tells the routes apart. There
// must be one line for all of them.
func TestARouteWithoutAPatternIsNamedByItsPath(t *testing.T) {
	var log strings.Builder
	g := newGuard(t, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	h := lockmw.Key(g, "stock:{sku}")(never(t))
	for _, target := range []string{"/stock/42", "/stock/43"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, target, nil))
	}
	if text := log.String(); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, `guard=guard route="POST /stock/42"`) {
		t.Errorf("got:\n%s", text)
	}
}

func TestTheFormIsHandedBack(t *testing.T) {
	body := strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"a\"; " +
		"filename=\"a\"\r\n\r\ncontent\r\n--x--\r\n")
	req := httptest.NewRequest(http.MethodPost, "/stock/42/buy", body)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	served := req
	h := lockmw.Key(newGuard(t), "stock:{sku}")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, _, err := r.FormFile("a"); err != nil {
			t.Error(err)
		}
		served = r
	}))
	if h.ServeHTTP(httptest.NewRecorder(), withPath(req)); served == req || req.MultipartForm == nil ||
		req.MultipartForm != served.MultipartForm {
		t.Error("the server will not find the temporary files of the form")
	}
}

func withPath(r *http.Request) *http.Request {
	r.SetPathValue("sku", "42")
	return r
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
