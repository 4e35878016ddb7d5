package lockmw

import (
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

// Key returns a middleware that serves one request at a time for each key that
// template makes, see [keyfunc.Parse]: "stock:{sku}" is guard.Key("stock",
// r.PathValue("sku")). It panics if the template is bad, or has no placeholder.
// A nil g is the default guard, looked up at each request; for a route's own
// settings pass g.With(...).
//
// A request waits for its key for at most MaxWait. The handler runs only under
// the lease, with r.Context() ending when the lease is lost; every other
// outcome is answered from package outcome.
func Key(g *guard.Guard, template string, opts ...Option) func(http.Handler) http.Handler {
	t := httpguard.Template(template)
	return KeyFunc(g, func(r *http.Request) (string, error) { return t.Key(r, nil) }, opts...)
}

// Static is [Key] for one constant key, which all requests wait for: jobs that
// may run once at a time, whatever they are about. It is written like a
// template, "jobs:nightly" for guard.Key("jobs", "nightly"), and panics if it
// has a placeholder.
func Static(g *guard.Guard, key string, opts ...Option) func(http.Handler) http.Handler {
	return KeyFunc(g, keyfunc.Static(httpguard.Constant(key)), opts...)
}

// KeyFunc is [Key] with a function that makes the key of the request. An error
// that is not one of keyfunc or guard is logged and answered with status 500.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...Option) func(http.Handler) http.Handler {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	cfg := newConfig(opts)
	lock := httpguard.New(g, cfg.bodyLimit)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if cfg.skip != nil && cfg.skip(r) {
				next.ServeHTTP(w, r)
				return
			}
			x := &exchange{
				writer: writer{ResponseWriter: w, lock: lock, request: r}, key: key,
				next: next, answers: cfg.answers,
			}
			if err := lock.Serve(x); err != nil {
				answer(x.shaped(), r, cfg.answers, err)
			}
		})
	}
}

// Error gives err, returned by guard or keyfunc inside a handler, the answer
// that the middleware would have given. It reports false, and does nothing, if
// err is nil or not one of theirs. If the response has begun it writes nothing;
// it knows that on guarded routes only.
//
//	if err := stock.Buy(r.Context(), r.PathValue("sku")); lockmw.Error(w, r, err) {
//		return
//	}
//
// The answer never has a Retry-After, because the handler may have done part of
// its work. Some clients repeat 429 and 503 even so: a handler that must not
// run twice takes its keys before it does anything, see docs/http.md. One that
// has done nothing yet says so by outcome.Write(w, o), with the o of
// [outcome.Of].
//
// An empty key is our own mistake, 500. Where it is the client's, say so,
// before or after: with &keyfunc.Error{Source: "json", Name: "sku", Err:
// keyfunc.ErrMissing} the answer is 400.
func Error(w http.ResponseWriter, r *http.Request, err error) bool {
	if _, ours := outcome.Of(r.Context(), err); !ours {
		return false
	}
	answer(w, r, answers{}, ran.Mark(err))
	return true
}

// answer answers err by a, and by what is set outside, unless the response has
// begun.
func answer(w http.ResponseWriter, r *http.Request, a answers, err error) {
	at := find(w)
	if at == nil {
		at = &writer{ResponseWriter: w}
		w = at.shaped()
	}
	if at.begun {
		return
	}
	a = a.Over(answersIn(r.Context()))
	err = heldstatus.With(err, a.Held)
	o, ours := at.lock.Outcome(r, r.Pattern, err)
	if !ours {
		o.Status = http.StatusInternalServerError
	}
	switch {
	case a.OnError != nil:
		(*a.OnError)(w, r, err)
	case !ours:
		http.Error(w, http.StatusText(o.Status), o.Status)
	default:
		outcome.Write(w, o)
	}
	if !at.begun {
		w.WriteHeader(o.Status) // never a 200 for what did not run
	}
}
