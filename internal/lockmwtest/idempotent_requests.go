package lockmwtest

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
)

func badKeys(r *rig) {
	app, _ := r.instances(r.never)
	for name, values := range map[string][]string{
		"missing":     nil,
		"empty":       {""},
		"quoted":      {`""`},
		"repeated":    {"k1", "k1"},
		"too long":    {strings.Repeat("k", 256)},
		"a space":     {"k 1"},
		"a tab":       {"k\t1"},
		"not ASCII":   {"k\xc3\xa4"},
		"a control":   {"k\x7f"},
		"also quoted": {`"k 1"`},
	} {
		req := r.payment()
		req.Header.Del("Idempotency-Key")
		if values != nil {
			req.Header["Idempotency-Key"] = values
		}
		w := send(app, req)
		r.expectProblem(w, http.StatusBadRequest, "idempotency_key_invalid", false)
		if r.Failed() {
			r.Fatal(name)
		}
	}
}

func goodKeys(r *rig) {
	c := order()
	one, two := r.instances(c.serve)
	for _, key := range []string{"k1", `"`, "k:1", "k{1}%!*", strings.Repeat("k", 255)} {
		plain, quoted := r.payment(), r.payment()
		plain.Header.Set("Idempotency-Key", key)
		quoted.Header.Set("Idempotency-Key", `"`+key+`"`)
		first := send(one, plain)
		if first.Code != http.StatusCreated {
			r.Errorf("%s: got %d %s", key, first.Code, first.Body)
		}
		r.expectSame(first, send(two, quoted))
	}
	r.expectRuns(c, 5)
}

func optionalKey(r *rig) {
	c := order()
	lock := once
	lock.OptionalKey = true
	one, two := r.instances(c.serve, lock)
	without := func() *http.Request {
		req := r.payment()
		req.Header.Del("Idempotency-Key")
		return req
	}
	send(one, without())
	if w := send(two, without()); replayed(w) || w.Body.String() != "order 2" {
		r.Errorf("got %d %s", w.Code, w.Body)
	}
	first := r.pay(one)
	r.expectSame(first, r.pay(two))
	r.expectRuns(c, 3)
	empty := r.payment()
	empty.Header.Set("Idempotency-Key", "")
	r.expectProblem(send(one, empty), http.StatusBadRequest, "idempotency_key_invalid", false)
}

func safePasses(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		if _, found := guard.LeaseFrom(req.Context()); found {
			r.Errorf("%s: there is a lease", req.Method)
		}
		return ok(w, req)
	}}
	one, two := r.instances(c.serve)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		for _, app := range []http.Handler{one, two} {
			w := send(app, httptest.NewRequestWithContext(r.Context(), method, path, nil))
			if w.Code != http.StatusOK || replayed(w) {
				r.Errorf("%s: got %d %s", method, w.Code, w.Body)
			}
		}
	}
	r.expectRuns(c, 6)
}

func noScope(r *rig) {
	app, _ := r.instances(r.never)
	req := r.payment()
	req.Header.Del("X-User")
	w := send(app, req)
	r.expectProblem(w, http.StatusBadRequest, "lock_key_invalid", false)
	if !strings.Contains(w.Body.String(), `"The header \"X-User\" is missing or empty."`) {
		r.Errorf("got %s", w.Body)
	}

	empty := Lock{TTL: keptFor, Scope: func(*http.Request) (string, error) { return "", nil }}
	app, _ = r.instances(r.never, empty)
	r.expectProblem(r.pay(app), http.StatusInternalServerError, "lock_misconfigured", false)

	own := Lock{TTL: keptFor, Scope: func(*http.Request) (string, error) { return "", errors.New("own") }}
	app, _ = r.instances(r.never, own)
	if w := r.pay(app); w.Code < 400 || strings.Contains(w.Body.String(), "own") && w.Code != http.StatusTeapot {
		r.Errorf("got %d %s", w.Code, w.Body)
	}
	if logs := r.logs.String(); !strings.Contains(logs, "the key function of a route failed") {
		r.Errorf("want a log of the scope's own error, got:\n%s", logs)
	}

	r.noClaim(Lock{TTL: keptFor, Scope: claim})

	// A path parameter is a scope too.
	c := order()
	one, two := r.instances(c.serve, Lock{TTL: keptFor, Scope: func(req *http.Request) (string, error) {
		return req.PathValue("sku"), nil
	}})
	r.expectSame(r.pay(one), r.pay(two))
}

func refusedAtStart(r *rig) {
	for name, lock := range map[string]Lock{
		"no scope":                    {TTL: keptFor},
		"a ttl that is too short":     {TTL: 1, Scope: once.Scope},
		"a negative ttl":              {TTL: -1, Scope: once.Scope},
		"a fingerprint of nothing":    {TTL: keptFor, Scope: once.Scope, Fingerprint: []keyfunc.Func{}},
		"a fingerprint by nil":        {TTL: keptFor, Scope: once.Scope, Fingerprint: []keyfunc.Func{nil}},
		"a header that is never kept": {TTL: keptFor, Scope: once.Scope, KeptHeaders: []string{"Set-Cookie"}},
	} {
		if r.refusalOf(lock) == nil {
			r.Errorf("%s: not refused", name)
		}
	}
}

func idempotentBodies(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		n, err := io.Copy(io.Discard, req.Body)
		if err != nil || n != 1000 {
			r.Errorf("the handler read %d bytes, %v", n, err)
		}
		return ok(w, req)
	}}
	lock := once
	lock.BodyLimit = 1000
	app, _ := r.instances(c.serve, lock)
	ask := func(n int) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(r.Context(), "POST", path, strings.NewReader(strings.Repeat("x", n)))
		req.Header = r.payment().Header
		return send(app, req)
	}
	r.expectProblem(ask(1001), http.StatusRequestEntityTooLarge, "lock_body_too_large", false)
	r.expectDone(ask(1000))
	r.expectRuns(c, 1)
}
