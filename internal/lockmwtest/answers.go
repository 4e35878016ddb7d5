package lockmwtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

func noValue(r *rig) {
	app := r.app(r.guard, r.never, "stock:{query.sku}")
	for _, query := range []string{"", "?sku=", "?sku=1&sku=2", "?sku=42;", "?sku=42&x=%zz"} {
		w := post(r.Context(), app, "/stock/x"+query)
		r.expectProblem(w, http.StatusBadRequest, "lock_key_invalid", false)
	}
	r.expectProblem(post(r.Context(), r.app(r.guard, r.never, "{header.X-Tenant}"), "/stock/x"),
		http.StatusBadRequest, "lock_key_invalid", false)
}

func noSource(r *rig) {
	app := r.app(r.guard, r.never, "stock:{id}")
	for range 3 { // but only one line in the log
		r.expectProblem(post(r.Context(), app, path), http.StatusInternalServerError, "lock_misconfigured", false)
	}
	logs := r.logs.String()
	if strings.Count(logs, "level=ERROR") != 1 || !strings.Contains(logs, `guard=shop route="POST /stock/`) ||
		!strings.Contains(logs, `path \"id\"`) {
		r.Errorf("want one error that names route and source, got:\n%s", logs)
	}
	if strings.Contains(logs, sku) {
		r.Errorf("the log tells the value:\n%s", logs)
	}
	r.noClaim(Lock{Key: claim})
}

// claim is one of a user that no authentication has put into the context.
var claim = keyfunc.FromContext(func(context.Context) (string, bool) { return "", false })

// noClaim fails the test unless lock, which has no source, is logged only once.
func (r *rig) noClaim(lock Lock) {
	r.Helper()
	r.logs.text.Reset()
	app := r.Mount(r.guard, r.never, lock)
	for range 3 {
		r.expectProblem(r.pay(app), http.StatusInternalServerError, "lock_misconfigured", false)
	}
	if logs := r.logs.String(); strings.Count(logs, "\n") != 1 || !strings.Contains(logs, "level=ERROR") {
		r.Errorf("want one error, got:\n%s", logs)
	}
}

func badRequests(r *rig) {
	for _, c := range []struct {
		template string
		req      *http.Request
		status   int
		code     string
		detail   string
	}{
		{
			"{query.sku}", request("/stock/x"), http.StatusBadRequest, "lock_key_invalid",
			`query parameter "sku", which names the resource to lock, is missing`,
		},
		{
			"{sku|int}", request(path), http.StatusBadRequest, "lock_key_invalid",
			`path parameter "sku", which names the resource to lock, is malformed`,
		},
		{
			"{json.sku}", withBody("text/plain", sku), http.StatusUnsupportedMediaType,
			"lock_unsupported_media_type", `JSON member "sku"`,
		},
		{
			"{form.sku}", withBody("application/json", sku), http.StatusUnsupportedMediaType,
			"lock_unsupported_media_type", `form field "sku"`,
		},
	} {
		_, w := r.keyOf(c.template, c.req)
		r.expectProblem(w, c.status, c.code, false)
		var body struct{ Detail string }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || !strings.Contains(body.Detail, c.detail) {
			r.Errorf("%s: got %s, want %s", c.template, w.Body, c.detail)
		}
	}
}

func noKey(r *rig) {
	for _, none := range []string{"", "stock:%!d(string=42)"} {
		app := r.Mount(r.guard, r.never, Lock{Key: func(*http.Request) (string, error) { return none, nil }})
		r.expectProblem(post(r.Context(), app, path), http.StatusInternalServerError, "lock_misconfigured", false)
	}
}

func ownKeyError(r *rig) {
	lock := Lock{Key: func(*http.Request) (string, error) { return "", errors.New("no session " + sku) }}
	w := post(r.Context(), r.Mount(r.guard, r.never, lock), path)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), sku) {
		r.Errorf("got %d %s", w.Code, w.Body)
	}
	lock.OnError = teapot
	if w := post(r.Context(), r.Mount(r.guard, r.never, lock), path); w.Code != http.StatusTeapot {
		r.Errorf("got %d %s, want the error handler's answer", w.Code, w.Body)
	}
	const line = `level=ERROR msg="guard: the key function of a route failed" guard=shop route="POST /stock/`
	logs := r.logs.String()
	for _, what := range []string{line, "error=\"no session ", "\n"} {
		if strings.Count(logs, what) != 2 {
			r.Errorf("want a line each, with the error handler and without it, got:\n%s", logs)
		}
	}
}

func answers(r *rig) {
	r.hold(r.other, key)
	g := r.guard.With(guard.WithMaxWait(0))
	house := Lock{Answers: true, OnError: teapot}
	wants := func(_ http.ResponseWriter, req *http.Request) error {
		return g.Do(req.Context(), key, func(context.Context) error { return nil })
	}
	own := func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusAccepted) }
	lock, inside := Lock{Template: template}, Lock{Answers: true, OnError: own}
	locked := Lock{Answers: true, Held: http.StatusLocked}
	for name, c := range map[string]struct {
		app    http.Handler
		status int
	}{
		"a lock":                   {r.Mount(g, r.never, house, lock), http.StatusTeapot},
		"a handler without a lock": {r.Mount(g, wants, house), http.StatusTeapot},
		"a handler under a lock":   {r.Mount(g, wants, house, Lock{Static: "a"}), http.StatusTeapot},
		"a lock with its own": {r.Mount(g, r.never, house,
			Lock{Template: template, OnError: own}), http.StatusAccepted},
		"answers inside answers":  {r.Mount(g, r.never, house, inside, lock), http.StatusAccepted},
		"a status added to them":  {r.Mount(g, r.never, house, locked, lock), http.StatusTeapot},
		"answers inside the lock": {r.Mount(g, r.never, lock, house), http.StatusConflict},
	} {
		if w := post(r.Context(), c.app, path); w.Code != c.status {
			r.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.status)
		}
	}
}

func heldStatus(r *rig) {
	release := r.hold(r.other, key)
	g := r.guard.With(guard.WithMaxWait(0))
	for _, status := range []int{409, 423, 429, 503} {
		for _, locks := range [][]Lock{
			{{Template: template, Held: status}},
			{{Answers: true, Held: status}, {Template: template}},
			{{Answers: true, Held: http.StatusLocked}, {Template: template, Held: status}},
		} {
			r.expectProblem(post(r.Context(), r.Mount(g, r.never, locks...), path), status, "lock_held", true)
		}
	}
	told := 0
	tell := func(w http.ResponseWriter, req *http.Request, err error) {
		o, _ := outcome.Of(req.Context(), err)
		told = o.Status
		w.WriteHeader(http.StatusOK)
	}
	telling := r.Mount(g, r.never, Lock{Answers: true, Held: http.StatusLocked},
		Lock{Template: template, OnError: tell})
	_ = post(r.Context(), telling, path)
	if told != http.StatusLocked {
		r.Errorf("the error handler is told %d", told)
	}

	// If a handler wanted a key itself, its request must not be repeated
	// blindly.
	wants := func(_ http.ResponseWriter, req *http.Request) error {
		return g.Do(req.Context(), key, func(context.Context) error { return nil })
	}
	inner := r.Mount(g, wants, Lock{Static: "a", Held: http.StatusServiceUnavailable})
	r.expectProblem(post(r.Context(), inner, path), http.StatusConflict, "lock_held", false)
	release()

	mend := r.locker.Break()
	other := r.Mount(g, r.never, Lock{Template: template, Held: http.StatusLocked})
	r.expectProblem(post(r.Context(), other, path), http.StatusServiceUnavailable, "lock_unavailable", true)
	mend()
	for _, status := range []int{1, 200, 400, 425, 500} {
		if r.refusalOf(Lock{Template: template, Held: status}) == nil {
			r.Errorf("%d was not refused", status)
		}
	}
}

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
