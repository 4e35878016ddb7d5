package lockmwtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
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
