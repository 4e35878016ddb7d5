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

// by returns once with a key that f finds.
func by(f keyfunc.Func) Lock {
	l := once
	l.IdempotencyKey = f
	return l
}

// event returns a request with a body of JSON and, unless id is "", an id in a
// header.
func (r *rig) event(id, body string) *http.Request {
	req := httptest.NewRequestWithContext(r.Context(), http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("X-User", "ann")
	req.Header.Set("Content-Type", "application/json")
	if id != "" {
		req.Header.Set("X-Delivery", id)
	}
	return req
}

func anyKey(r *rig) {
	c := order()
	for name, key := range map[string]keyfunc.Func{
		"header": keyfunc.Header("X-Delivery"), "json": keyfunc.JSON("id"),
		"path": keyfunc.Join(keyfunc.Path("sku"), keyfunc.Header("X-Delivery")),
	} {
		c.runs = 0
		lock := by(key)
		lock.Scope = keyfunc.Join(keyfunc.Header("X-User"), keyfunc.Static(name))
		one, two := r.instances(c.serve, lock)
		first := send(one, r.event("e 1", `{"id": "e 1"}`))
		again := r.event("e 1", `{"id": "e 1"}`)
		again.Header.Set("Idempotency-Key", "other") // which is any header here
		r.expectSame(first, send(two, again))
		if w := send(two, r.event("ä", `{"id": "ä"}`)); w.Code != http.StatusCreated || replayed(w) {
			r.Errorf("%s: another key got %d %s", name, w.Code, w.Body)
		}
		if w := send(one, r.event("e 1", `{"id": "e 1", "n": 2}`)); w.Code != http.StatusUnprocessableEntity {
			r.Errorf("%s: another body got %d %s", name, w.Code, w.Body)
		}
		r.expectRuns(c, 2)
	}
}

func badAnyKeys(r *rig) {
	header, json := by(keyfunc.Header("X-Delivery")), by(keyfunc.JSON("id"))
	json.BodyLimit = 1000
	twice := r.event("e1", "{}")
	twice.Header.Add("X-Delivery", "e2")
	empty := func(*http.Request) (string, error) { return "", nil }
	form := r.event("", "id=1")
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, row := range map[string]struct {
		lock   Lock
		req    *http.Request
		status int
		code   string
		detail string
	}{
		"no header":     {header, r.event("", "{}"), 400, "idempotency_key_invalid", "X-Delivery"},
		"two headers":   {header, twice, 400, "idempotency_key_invalid", "X-Delivery"},
		"a long header": {header, r.event(strings.Repeat("k", 256), "{}"), 400, "idempotency_key_invalid", ""},
		"no member":     {json, r.event("", "{}"), 400, "idempotency_key_invalid", `JSON member \"id\"`},
		"another type":  {json, form, 415, "lock_unsupported_media_type", ""},
		"a long body": {
			json, r.event("", `{"id": "`+strings.Repeat("k", 1000)+`"}`), 413, "lock_body_too_large", "",
		},
		"an empty key":  {by(empty), r.event("", "{}"), 400, "idempotency_key_invalid", ""},
		"no such place": {by(keyfunc.Path("nowhere")), r.event("", "{}"), 500, "lock_misconfigured", ""},
	} {
		app, _ := r.instances(r.never, row.lock)
		w := send(app, row.req)
		if !strings.Contains(w.Body.String(), row.detail) {
			r.Errorf("%s: the text does not say %s: %s", name, row.detail, w.Body)
		}
		r.expectProblem(w, row.status, row.code, false)
		if r.Failed() {
			r.Fatal(name)
		}
	}
	app, _ := r.instances(r.never, by(func(*http.Request) (string, error) { return "", errors.New("own") }))
	if w := send(app, r.event("", "{}")); w.Code < 400 {
		r.Errorf("got %d %s", w.Code, w.Body)
	}
	if logs := r.logs.String(); !strings.Contains(logs, "the key function of a route failed") {
		r.Errorf("want a log of the function's own error, got:\n%s", logs)
	}
}

func optionalAnyKey(r *rig) {
	c := &counter{}
	c.h = func(w http.ResponseWriter, req *http.Request) error {
		body, err := io.ReadAll(req.Body)
		if _, found := guard.LeaseFrom(req.Context()); err != nil || found != strings.Contains(string(body), "e1") {
			r.Errorf("a lease: %v, body %q, %v", found, body, err)
		}
		return ok(w, req)
	}
	lock := by(keyfunc.JSON("id"))
	lock.OptionalKey = true
	one, two := r.instances(c.serve, lock)
	r.expectDone(send(one, r.event("", `{"n": 1}`)))
	if w := send(two, r.event("", `{"n": 1}`)); replayed(w) {
		r.Error("a request without a key got an answer of another")
	}
	r.expectSame(send(one, r.event("", `{"id": "e1"}`)), send(two, r.event("", `{"id": "e1"}`)))
	r.expectRuns(c, 3)
	r.expectProblem(send(one, r.event("", `{"id": 1, "ID": 2}`)), http.StatusBadRequest, "idempotency_key_invalid", false)
}

// same returns a request with the key k1 of ann and a body of JSON.
func (r *rig) same(body string) *http.Request {
	req := r.event("", body)
	req.Header.Set("Idempotency-Key", "k1")
	return req
}

func chosenValues(r *rig) {
	c := order()
	lock := once
	lock.Fingerprint = []keyfunc.Func{keyfunc.JSON("a"), keyfunc.JSON("b")}
	one, two := r.instances(c.serve, lock)
	first := send(one, r.same(`{"a": "x", "b": "yz", "note": 1}`))
	again := r.same(`{"b":"yz","a":"x"}`)
	again.Method, again.URL.RawQuery = http.MethodPut, "try=2"
	r.expectSame(first, send(two, again))
	for _, body := range []string{`{"a": "x", "b": "y"}`, `{"a": "xy", "b": "z"}`, `{"a": "yz", "b": "x"}`} {
		r.expectProblem(send(two, r.same(body)), http.StatusUnprocessableEntity, "idempotency_key_reused", false)
	}
	missing := send(two, r.same(`{"a": "x"}`))
	r.expectProblem(missing, http.StatusBadRequest, "lock_key_invalid", false)
	if !strings.Contains(missing.Body.String(), `"The JSON member \"b\" is missing or empty."`) { // no lock needs it
		r.Errorf("got %s", missing.Body)
	}
	r.expectRuns(c, 1)
}

func keyAlone(r *rig) {
	c := &counter{}
	c.h = func(w http.ResponseWriter, req *http.Request) error {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return err
		}
		return ok(w, req)
	}
	lock := by(keyfunc.Header("X-Delivery"))
	lock.NoFingerprint, lock.BodyLimit = true, 1000
	one, two := r.instances(c.serve, lock)
	for _, size := range []int{10, 100_000} {
		c.runs = 0
		ask := func(app http.Handler, method, text string) *httptest.ResponseRecorder {
			req := r.event("e", strings.Repeat(text, size))
			req.Header.Set("X-User", strings.Repeat("u", size%97)) // a scope of its own
			req.Method = method
			return send(app, req)
		}
		first := ask(one, http.MethodPost, "x")
		r.expectDone(first)
		r.expectSame(first, ask(two, http.MethodPut, "y"))
		r.expectRuns(c, 1)
	}
}

func replayHook(r *rig) {
	c, told := order(), 0
	lock := once
	lock.ReplayHook = func() { told++ }
	one, two := r.instances(c.serve, lock)
	r.pay(one)
	other := r.payment()
	other.URL.RawQuery = "a=1"
	send(two, other)
	if told != 0 {
		r.Errorf("told %d times, and nothing was replayed", told)
	}
	for want := 1; want < 3; want++ {
		if r.pay(two); told != want {
			r.Errorf("told %d times of %d replays", told, want)
		}
	}
}

func inTransaction(r *rig) {
	for status, want := range map[int]struct{ sum, runs int }{
		http.StatusCreated:            {1, 1},
		http.StatusConflict:           {0, 1}, // rolled back, and kept
		http.StatusTooManyRequests:    {0, 2},
		http.StatusServiceUnavailable: {0, 2},
	} {
		ledger := new(Ledger)
		c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
			if tx := TxFrom(req.Context()); tx != nil {
				tx.Add()
			}
			w.WriteHeader(status)
			return nil
		}}
		lock := once
		lock.Once = ledger.Once
		one, two := r.instances(c.serve, lock)
		ledger.Refuse = errors.New("no answer to COMMIT")
		if status < 400 {
			r.expectProblem(r.pay(one), http.StatusServiceUnavailable, "lock_unavailable", true)
			c.runs = 0
		}
		ledger.Refuse = nil
		first, again := r.pay(one), r.pay(two)
		if first.Code != status || again.Code != status || replayed(again) != (want.runs == 1) {
			r.Errorf("%d: got %d, then %d, replay %v", status, first.Code, again.Code, replayed(again))
		}
		if ledger.Sum() != want.sum || c.runs != want.runs {
			r.Errorf("%d: %d committed of %d runs, want %d, %d", status, ledger.Sum(), c.runs, want.sum, want.runs)
		}
	}
}
