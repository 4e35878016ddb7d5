package lockmwtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
)

const items = "stock:{json.items[].sku}"

// cart is a request with items and a path parameter.
func cart(skus ...string) *http.Request {
	list := make([]string, len(skus))
	for i, sku := range skus {
		list[i] = fmt.Sprintf(`{"sku": %q}`, sku)
	}
	return withBody("application/json", `{"items": [`+strings.Join(list, ",")+`]}`)
}

// order serves req and returns the answer.
func (r *rig) order(app http.Handler, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	app.ServeHTTP(w, req.WithContext(r.Context()))
	return w
}

// severalKeys checks that a handler runs under the leases of all keys of its
// request, by templates and by a function, and that all are released.
func severalKeys(r *rig) {
	all := func(*http.Request) ([]string, error) {
		return []string{guard.Key("stock", "b"), guard.Key("stock", "a"), key, guard.Key("stock", "b")}, nil
	}
	for _, l := range []Lock{{Templates: []string{items, template}}, {Keys: all}} {
		app := r.Mount(r.guard, func(w http.ResponseWriter, req *http.Request) error {
			for _, key := range []string{guard.Key("stock", "a"), guard.Key("stock", "b"), key} {
				if held, found := guard.LeaseOf(req.Context(), key); !found || held.Key() != key {
					r.Errorf("no lease on %s in the request's context", key)
				}
				if _, err := r.other.TryAcquire(req.Context(), key); err == nil {
					r.Errorf("another process got %s", key)
				}
			}
			return ok(w, req)
		}, l)
		r.expectDone(r.order(app, cart("b", "a", "b")))
		for _, key := range []string{guard.Key("stock", "a"), guard.Key("stock", "b"), key} {
			r.mustBeFree(key)
		}
	}
}

// severalHeld checks that no handler runs if one of its keys is held, and that
// the others are free then.
func severalHeld(r *rig) {
	r.hold(r.other, guard.Key("stock", "b"))
	app := r.Mount(r.guard, r.never, Lock{Templates: []string{items}})
	start := time.Now()
	r.expectProblem(r.order(app, cart("c", "b", "a")), http.StatusConflict, "lock_held", true)
	if d := time.Since(start); d < maxWait || d > maxWait+50*time.Millisecond {
		r.Errorf("waited %v, want %v", d, maxWait)
	}
	time.Sleep(time.Second) // keys that nobody has used are released in the background
	r.mustBeFree(guard.Key("stock", "a"))
	r.mustBeFree(guard.Key("stock", "c"))
}

func severalRefused(r *rig) {
	app := r.Mount(r.guard, r.never, Lock{Templates: []string{items}})
	for _, body := range []string{
		``, `{}`, `{"items": []}`, `{"items": null}`, `{"items": "a"}`, `{"items": ["a"]}`, `{"items": [{"sku": "a"}, {}]}`,
		`{"items": [{"sku": ""}]}`, `{"items": [{"sku": ["a"]}]}`,
	} {
		w := r.order(app, withBody("application/json", body))
		r.expectProblem(w, http.StatusBadRequest, "lock_key_invalid", false)
	}
	r.expectProblem(r.order(app, withBody("text/plain", `{"items": [{"sku": "a"}]}`)), http.StatusUnsupportedMediaType,
		"lock_unsupported_media_type", false)

	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf("sku%d", i))
	}
	r.expectProblem(r.order(app, cart(many...)), http.StatusRequestEntityTooLarge, "lock_too_many_keys", false)
	done := r.Mount(r.guard, ok, Lock{Templates: []string{items}})
	r.expectDone(r.order(done, cart(slices.Concat(many[1:], many[1:])...)))

	tooMany := Lock{Keys: func(*http.Request) ([]string, error) { return many, nil }}
	w := post(r.Context(), r.Mount(r.guard, r.never, tooMany), path)
	r.expectProblem(w, http.StatusRequestEntityTooLarge, "lock_too_many_keys", false)
	for _, none := range [][]string{nil, {""}, {"a", ""}, {"a", "stock:%!d(string=42)"}} {
		lock := Lock{Keys: func(*http.Request) ([]string, error) { return none, nil }}
		w := post(r.Context(), r.Mount(r.guard, r.never, lock), path)
		r.expectProblem(w, http.StatusInternalServerError, "lock_misconfigured", false)
	}
	missing := Lock{Keys: func(*http.Request) ([]string, error) {
		return nil, &keyfunc.Error{Source: "json", Name: "items", Err: keyfunc.ErrMissing}
	}}
	w = post(r.Context(), r.Mount(r.guard, r.never, missing), path)
	r.expectProblem(w, http.StatusBadRequest, "lock_key_invalid", false)
}

func badLists(r *rig) {
	for template, want := range map[string]string{
		"stock:{json.a[].b[].c}":   "column 8",
		"stock:{json.items[].sku|": "column 7",
		"nightly":                  "lockmw.Static",
	} {
		text := fmt.Sprint(r.refusalOf(Lock{Templates: []string{items, template}}))
		if !strings.Contains(text, want) {
			r.Errorf("%s: got %s, want a panic with %s", template, text, want)
		}
	}
	if r.refusalOf(Lock{Templates: []string{}}) == nil {
		r.Error("no templates were not refused")
	}
	if text := fmt.Sprint(r.refusalOf(Lock{Template: items})); !strings.Contains(text, "several keys: use Keys") {
		r.Errorf("got %s, want a panic that names Keys", text)
	}
}

// These rows are about how many requests may have a key at once.

func readers(r *rig) {
	read := r.app(r.guard.With(guard.WithShared()), ok, template)
	write := r.app(r.guard, ok, template)
	release := r.hold(r.other.With(guard.WithShared()), key)
	r.expectDone(post(r.Context(), read, path))
	r.expectProblem(post(r.Context(), write, path), http.StatusConflict, "lock_held", true)
	release()
	r.expectDone(post(r.Context(), write, path))
	r.hold(r.other, key)
	r.expectProblem(post(r.Context(), read, path), http.StatusConflict, "lock_held", true)
}

func permits(r *rig) {
	two := guard.WithPermits(2)
	app := r.app(r.guard.With(two), ok, template)
	r.hold(r.other.With(two), key)
	r.expectDone(post(r.Context(), app, path))
	release := r.hold(r.other.With(two), key)
	r.expectProblem(post(r.Context(), app, path), http.StatusConflict, "lock_held", true)
	release()
	r.expectDone(post(r.Context(), app, path))
}

func minHold(r *rig) {
	opts := []guard.Option{guard.WithMinHold(30 * time.Second), guard.WithMaxWait(0)}
	here, there := r.app(r.guard.With(opts...), ok, template), r.app(r.other.With(opts...), ok, template)
	r.expectDone(post(r.Context(), here, path))
	begin := time.Now()
	for range 20 { // jitter would show
		for process, app := range map[string]http.Handler{"here": here, "in another process": there} {
			left := 30*time.Second - time.Since(begin)
			w := post(r.Context(), app, path)
			r.expectProblem(w, http.StatusConflict, "lock_held", true)
			after, _ := strconv.Atoi(w.Header().Get("Retry-After"))
			if told := time.Duration(after) * time.Second; told < left || told > left+time.Second {
				r.Errorf("%s: Retry-After %d with %v left", process, after, left)
			}
		}
		time.Sleep(1300 * time.Millisecond)
	}
	time.Sleep(5 * time.Second)
	r.expectDone(post(r.Context(), there, path))
}

func minHoldOnSuccess(r *rig) {
	keep := r.guard.With(guard.WithMinHold(5*time.Second, guard.OnSuccess), guard.WithMaxWait(0))
	status := func(code int) Handler {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(code)
			return nil
		}
	}
	held := guard.Key("order")
	for name, c := range map[string]struct {
		handler Handler
		kept    bool
	}{
		"nothing":         {func(http.ResponseWriter, *http.Request) error { return nil }, true},
		"200 by its body": {ok, true},
		"201":             {status(http.StatusCreated), true},
		"303":             {status(http.StatusSeeOther), true},
		"400":             {status(http.StatusBadRequest), false},
		"409":             {status(http.StatusConflict), false},
		"500":             {status(http.StatusInternalServerError), false},
		"an error":        {func(http.ResponseWriter, *http.Request) error { return errors.New("own") }, false},
		"an error of ours": {func(_ http.ResponseWriter, req *http.Request) error {
			return keep.Do(req.Context(), held, func(context.Context) error { return nil })
		}, false},
		"200, then an error": {func(w http.ResponseWriter, req *http.Request) error {
			_ = ok(w, req)
			return guard.ErrNotAcquired
		}, !r.Buffered},
	} {
		release := r.hold(r.other, held)
		_ = post(r.Context(), r.app(keep, c.handler, template), path)
		release()
		l, err := r.other.TryAcquire(r.Context(), key)
		if kept := errors.Is(err, guard.ErrNotAcquired); kept != c.kept {
			r.Errorf("%s: kept %v (%v), want %v", name, kept, err, c.kept)
		}
		if err == nil {
			_ = l.Release(r.Context())
		}
		time.Sleep(6 * time.Second)
	}
}
