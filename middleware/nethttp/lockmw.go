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
// template makes. The template "stock:{sku}" is guard.Key("stock",
// r.PathValue("sku")). [keyfunc.Parse] describes templates. Key panics if the
// template is bad or has no placeholder.
//
// A nil g is the default guard, looked up at each request. For a route's own
// settings pass g.With(...).
//
// A request waits for its key for at most MaxWait. The handler runs only under
// the lease. r.Context() ends when the lease is lost. Every other outcome is
// answered from package outcome.
func Key(g *guard.Guard, template string, opts ...Option) func(http.Handler) http.Handler {
	t := httpguard.Template(template)
	return KeyFunc(g, func(r *http.Request) (string, error) { return t.Key(r, nil) }, opts...)
}

// Static is [Key] for one constant key that all requests wait for. It is for
// jobs that may run only once at a time, whatever their parameters. key is
// written like a template. For example, "jobs:nightly" is guard.Key("jobs",
// "nightly"). Static panics if key has a placeholder.
func Static(g *guard.Guard, key string, opts ...Option) func(http.Handler) http.Handler {
	return KeyFunc(g, keyfunc.Static(httpguard.Constant(key)), opts...)
}

// KeyFunc is [Key] with a function that makes the key of the request. An error
// that is not one of keyfunc or guard is logged and answered with status 500.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...Option) func(http.Handler) http.Handler {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, func(r *http.Request) (httpguard.Keys, error) { return httpguard.One(key(r)) }, opts)
}

// Keys is [Key] for all keys that the templates make of one request. The
// handler runs under all the leases, and guard.LeaseOf finds each.
// [keyfunc.ParseKeys] describes templates with lists, such as
// "stock:{json.items[].sku}".
//
// The keys are taken as [guard.Guard.DoAll] takes them, each once, and MaxWait
// bounds all the waiting. A request with more than 64 keys is refused with
// status 413. Keys panics if there are no templates, or if one is bad or has no
// placeholder. For options pass [keyfunc.MustParseKeys] to KeysFunc.
func Keys(g *guard.Guard, templates ...string) func(http.Handler) http.Handler {
	t := httpguard.Templates(templates)
	return KeysFunc(g, func(r *http.Request) ([]string, error) { return t.Keys(r, nil) })
}

// KeysFunc is [Keys] with a function that makes the keys of the request, as
// [KeyFunc] is to [Key]. No keys at all are a server error. If the client left
// them out, return an error of keyfunc.
func KeysFunc(
	g *guard.Guard, keys func(*http.Request) ([]string, error), opts ...Option,
) func(http.Handler) http.Handler {
	if keys == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, func(r *http.Request) (httpguard.Keys, error) { return httpguard.All(keys(r)) }, opts)
}

func newMiddleware(
	g *guard.Guard, keys func(*http.Request) (httpguard.Keys, error), opts []Option,
) func(http.Handler) http.Handler {
	cfg := newConfig(opts)
	cfg.idempotent.OnlyIdempotent()
	lock := httpguard.New(g, cfg.bodyLimit)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if cfg.skip != nil && cfg.skip(r) {
				next.ServeHTTP(w, r)
				return
			}
			x := &exchange{
				writer: writer{ResponseWriter: w, lock: lock, request: r}, keys: keys,
				next: next, answers: cfg.answers,
			}
			if err := lock.Serve(x); err != nil {
				answer(x.shaped(), r, cfg.answers, err)
			}
		})
	}
}

// Error answers an error that guard or keyfunc returned inside a handler, as
// the middleware would have done, and returns true. If err is nil or not one of
// theirs, it does nothing and returns false. If the response has begun it
// writes nothing, but it knows that on guarded routes only.
//
//	if err := stock.Buy(r.Context(), r.PathValue("sku")); lockmw.Error(w, r, err) {
//		return
//	}
//
// The answer never has a Retry-After, because the handler may have done part of
// its work. Some clients repeat 429 and 503 even so. A handler that must not
// run twice takes its keys before it does anything, see docs/http.md. A handler
// that has done nothing yet may call outcome.Write(w, o) with the o of
// [outcome.Of] instead. Then the answer has a Retry-After.
//
// An empty key is treated as a server error and answered with 500. If the
// client left the value out, use the error &keyfunc.Error{Source: "json", Name:
// "sku", Err: keyfunc.ErrMissing}. Then the answer is 400.
func Error(w http.ResponseWriter, r *http.Request, err error) bool {
	if _, ours := outcome.Of(r.Context(), err); !ours {
		return false
	}
	answer(w, r, answers{}, ran.Mark(err))
	return true
}

// answer answers err unless the response has begun. a takes precedence over the
// answers that are set outside.
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
		w.WriteHeader(o.Status) // never a 200 if the handler did not run
	}
}
