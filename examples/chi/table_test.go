package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/gorilla/mux"
	"github.com/julienschmidt/httprouter"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// The adapters' own table, on routers that the library itself does not depend
// on.

func TestTheTableOnChi(t *testing.T) {
	lockmwtest.Run(t, lockmwtest.Adapter{
		Raw: true,
		Mount: func(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
			chi.RegisterMethod("QUERY")
			r := chi.NewRouter()
			r.With(verbs.Chain(g, locks...)...).Handle("/stock/{sku}", handler(h))
			return r
		},
	})
}

func TestTheTableOnGorilla(t *testing.T) {
	lockmwtest.Run(t, lockmwtest.Adapter{Mount: func(g *guard.Guard, h lockmwtest.Handler,
		locks ...lockmwtest.Lock,
	) http.Handler {
		r := mux.NewRouter()
		r.Handle("/stock/{sku}", handler(h))
		r.Use(vars)
		for _, m := range verbs.Chain(g, locks...) {
			r.Use(m)
		}
		return r
	}})
}

// vars hands gorilla's path variables to the locks inside, and the pattern,
// which their logs name.
func vars(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range mux.Vars(r) {
			keyfunc.SetPath(r, name, value)
		}
		r.Pattern, _ = mux.CurrentRoute(r).GetPathTemplate()
		next.ServeHTTP(w, r)
	})
}

func TestTheTableOnHttprouter(t *testing.T) {
	lockmwtest.Run(t, lockmwtest.Adapter{Mount: func(g *guard.Guard, h lockmwtest.Handler,
		locks ...lockmwtest.Lock,
	) http.Handler {
		handler := handler(h)
		for _, m := range slices.Backward(verbs.Chain(g, locks...)) {
			handler = m(handler)
		}
		r := httprouter.New()
		for _, method := range []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
			http.MethodOptions, http.MethodTrace, "QUERY",
		} {
			r.Handler(method, "/stock/:sku", params("/stock/:sku", handler))
		}
		return r
	}})
}

// params hands httprouter's path parameters to the locks inside, and the
// pattern, which their logs name.
func params(pattern string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, p := range httprouter.ParamsFromContext(r.Context()) {
			keyfunc.SetPath(r, p.Key, p.Value)
		}
		r.Pattern = pattern
		next.ServeHTTP(w, r)
	})
}

func TestTheWildcardOfChiIsAPathParameter(t *testing.T) {
	g := guardtest.New(t)
	r := chi.NewRouter()
	r.With(lockmw.Key(g.Guard, "file:{*}")).Get("/files/*", func(_ http.ResponseWriter, r *http.Request) {
		if l, _ := guard.LeaseFrom(r.Context()); l.Key() != guard.Key("file", "a/b.txt") {
			t.Errorf("got %s", l.Key())
		}
	})
	for target, status := range map[string]int{"/files/a/b.txt": http.StatusOK, "/files/": http.StatusBadRequest} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != status {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
	}
}

func handler(h lockmwtest.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil && !lockmw.Error(w, r, err) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
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
