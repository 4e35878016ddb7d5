package lockmwtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
)

func skipped(r *rig) {
	r.hold(r.other, key)
	app := r.Mount(r.guard.With(guard.WithMaxWait(0)), func(w http.ResponseWriter, req *http.Request) error {
		if _, found := guard.LeaseFrom(req.Context()); found {
			r.Errorf("%s: there is a lease", req.Method)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}, Lock{Template: template, SkipSafe: true})
	for method, status := range map[string]int{
		"GET": http.StatusNoContent, "HEAD": http.StatusNoContent, "OPTIONS": http.StatusNoContent,
		"TRACE": http.StatusNoContent,
		"QUERY": http.StatusNoContent,
		"POST":  http.StatusConflict, "PUT": http.StatusConflict, "PATCH": http.StatusConflict,
		"DELETE": http.StatusConflict,
	} {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequestWithContext(r.Context(), method, path, nil))
		if w.Code != status {
			r.Errorf("%s: got %d, want %d", method, w.Code, status)
		}
	}
}

func errorHandler(r *rig) {
	own := errors.New("own")
	r.hold(r.other, key)
	gone, cancel := context.WithCancel(r.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		lock   Lock
		status int // the status if the error handler writes nothing
		err    error
	}{
		"held": {r.Context(), Lock{Template: template}, http.StatusConflict, guard.ErrNotAcquired},
		"missing": {
			r.Context(),
			Lock{Template: "{query.sku}"},
			http.StatusBadRequest, keyfunc.ErrMissing,
		},
		"no such parameter": {
			r.Context(),
			Lock{Template: "{id}"},
			http.StatusInternalServerError, keyfunc.ErrNoSource,
		},
		"the key function's own": {
			r.Context(),
			Lock{Key: func(*http.Request) (string, error) { return "", own }},
			http.StatusInternalServerError, own,
		},
		"client gone": {gone, Lock{Static: "free"}, 499, context.Canceled},
	} {
		for _, write := range []bool{true, false} {
			var got error
			c.lock.OnError = func(w http.ResponseWriter, _ *http.Request, err error) {
				if got = err; write {
					w.WriteHeader(http.StatusTeapot)
					_, _ = io.WriteString(w, "own")
				}
			}
			w := post(c.ctx, r.Mount(r.guard.With(guard.WithMaxWait(0)), r.never, c.lock), path)
			if !errors.Is(got, c.err) {
				r.Errorf("%s: got %v, want %v", name, got, c.err)
			}
			if write && (w.Code != http.StatusTeapot || w.Body.String() != "own") || !write &&
				(w.Code != c.status || w.Body.Len() > 0) {
				r.Errorf("%s, written %v: got %d %s, want %d", name, write, w.Code, w.Body, c.status)
			}
		}
	}
}

// teapot is an error handler of the application's own.
func teapot(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusTeapot) }

func errorHandlerInside(r *rig) {
	r.hold(r.other, guard.Key("order"))
	g := r.guard.With(guard.WithMaxWait(0))
	outer := Lock{Template: template, OnError: teapot}
	fails := func(_ http.ResponseWriter, req *http.Request) error {
		return g.Do(req.Context(), guard.Key("order"), func(context.Context) error { return nil })
	}
	for name, app := range map[string]http.Handler{
		"a handler's error": r.Mount(g, fails, outer),
		"a middleware":      r.Mount(g, r.never, outer, Lock{Static: "order"}),
		"behind two more":   r.Mount(g, fails, outer, Lock{Static: "a"}, Lock{Static: "b"}),
	} {
		if w := post(r.Context(), app, path); w.Code != http.StatusTeapot {
			r.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
}

func errorHandlerOutside(r *rig) {
	r.hold(r.other, key)
	app := r.Mount(r.guard, r.never, Lock{Template: template}, Lock{Static: "inner", OnError: teapot})
	r.expectProblem(post(r.Context(), app, path), http.StatusConflict, "lock_held", true)
}

func afterTheFirstByte(r *rig) {
	app := r.app(r.guard, func(w http.ResponseWriter, req *http.Request) error {
		_ = ok(w, req)
		return guard.ErrLeaseLost
	}, template)
	w := post(r.Context(), app, path)
	if r.Buffered {
		r.expectProblem(w, http.StatusInternalServerError, "lock_lost", false)
		return
	}
	r.expectDone(w)
}

func bodyLimit(r *rig) {
	body := `{"sku":"7","x":"` + strings.Repeat("x", 64<<10) + `"}`
	ask := func(limit int) *httptest.ResponseRecorder {
		app := r.Mount(r.guard, func(w http.ResponseWriter, req *http.Request) error {
			if got, err := io.ReadAll(req.Body); err != nil || string(got) != body {
				r.Errorf("the handler reads %.100q, %v", got, err)
			}
			return ok(w, req)
		}, Lock{Template: "{json.sku}", BodyLimit: limit})
		w := httptest.NewRecorder()
		app.ServeHTTP(w, withBody("application/json", body).WithContext(r.Context()))
		return w
	}
	r.expectDone(ask(len(body)))
	r.expectProblem(ask(len(body)-1), http.StatusRequestEntityTooLarge, "lock_body_too_large", false)
}
