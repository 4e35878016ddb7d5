package lockmw

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/middleware/httpopt"
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
func Key(g *guard.Guard, template string, opts ...httpopt.Option) func(http.Handler) http.Handler {
	return newMiddleware(g, httpguard.OfTemplate(template), opts)
}

// Static is [Key] for one constant key that all requests wait for. Static is
// for jobs that may run only once at a time, whatever their parameters. key is
// written like a template. For example, "jobs:nightly" is guard.Key("jobs",
// "nightly"). Static panics if key has a placeholder.
func Static(g *guard.Guard, key string, opts ...httpopt.Option) func(http.Handler) http.Handler {
	return newMiddleware(g, httpguard.OfConstant(key), opts)
}

// KeyFunc is [Key] with a function that makes the key of the request. An error
// that is not one of keyfunc or guard is logged and answered with status 500.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...httpopt.Option) func(http.Handler) http.Handler {
	return newMiddleware(g, httpguard.OfRequest(key), opts)
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
	return newMiddleware(g, httpguard.OfTemplates(templates), nil)
}

// KeysFunc is [Keys] with a function that makes the keys of the request, as
// [KeyFunc] is to [Key]. No keys at all are a server error. If the client left
// them out, return an error of keyfunc.
func KeysFunc(
	g *guard.Guard, keys func(*http.Request) ([]string, error), opts ...httpopt.Option,
) func(http.Handler) http.Handler {
	return newMiddleware(g, httpguard.SeveralOfRequest(keys), opts)
}

func newMiddleware(g *guard.Guard, keys httpguard.Source, opts []httpopt.Option) func(http.Handler) http.Handler {
	cfg := httpguard.NewConfig(with, opts)
	lock := cfg.Lock(g)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if cfg.Skips(r) {
				next.ServeHTTP(w, r)
				return
			}
			x := exchange{httpguard.Writer{ResponseWriter: w, Lock: lock, Req: r}, keys, next, cfg.Answers}
			if err := lock.Serve(&x); err != nil {
				answer(x.Shaped(), r, cfg.Answers, err)
			}
		})
	}
}

// Idempotent returns a middleware that carries out each request once, by its
// header Idempotency-Key or [httpopt.WithIdempotencyKey]. The answer is kept
// for ttl. A request that comes again gets it, with the header
// Idempotency-Replayed. One that comes while the first runs waits for it, for
// at most MaxWait.
//
// scope says who sends the request, such as the user or the tenant, see
// [httpopt]. Idempotent panics without one, and if ttl is less than 1 ms. A nil
// g is the default guard, looked up at each request. Its store must keep
// results, see [guard.Once].
//
// The handler runs under a lease, as in [Key]. Its answer is held back until it
// is kept. [httpopt] says which answers are. If the lease is lost, the answer
// is 500 and nothing is kept. What is flushed goes to the client as it is
// written. Trailers are not kept. An answer is kept too if its client has gone.
// If the handler has written nothing then, later requests get 409.
//
// Requests with safe methods pass, and their handler has no lease. docs/http.md
// says what clients send and get.
func Idempotent(
	g *guard.Guard, scope keyfunc.Func, ttl time.Duration, opts ...httpopt.IdempotentOption,
) func(http.Handler) http.Handler {
	cfg := httpguard.NewConfig(with, opts)
	once, keys := cfg.Idempotent(g, ttl), httpguard.ScopeOfRequest(scope)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if httpguard.IsSafe(r.Method) || cfg.Skips(r) {
				next.ServeHTTP(w, r)
				return
			}
			at := httpguard.Writer{ResponseWriter: w, Lock: once.Lock, Req: r}
			x := heldExchange{exchange: exchange{at, keys, next, cfg.Answers}, limit: once.Limit()}
			switch err := once.Serve(&x); {
			case errors.Is(err, httpguard.ErrPasses):
				next.ServeHTTP(w, r)
			case err != nil:
				answer(x.Shaped(), r, cfg.Answers, err)
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
// [outcome.Of] instead. The answer then has a Retry-After.
//
// An empty key is treated as a server error and answered with 500. If the
// client left the value out, use the error &keyfunc.Error{Source: "json", Name:
// "sku", Err: keyfunc.ErrMissing}. The answer is then 400.
func Error(w http.ResponseWriter, r *http.Request, err error) bool {
	if _, ours := outcome.Of(r.Context(), err); !ours {
		return false
	}
	answer(w, r, answers{}, errnote.With(err, errnote.Ran(true)))
	return true
}

// answer answers err unless the response has begun. a takes precedence over the
// answers that are set outside.
func answer(w http.ResponseWriter, r *http.Request, a answers, err error) {
	at := httpguard.FindWriter(w)
	if at == nil {
		at = &httpguard.Writer{ResponseWriter: w}
		w = at.Shaped()
	}
	if at.Begun() {
		return
	}
	a = a.Over(httpguard.AnswersIn[onError](r.Context()))
	err = a.Note(err)
	o, ours := at.Lock.Outcome(r, r.Pattern, err)
	switch {
	case a.OnError != nil:
		(*a.OnError)(w, r, err)
	case !ours:
		http.Error(w, http.StatusText(o.Status), o.Status)
	default:
		outcome.Write(w, o)
	}
	if !at.Begun() {
		w.WriteHeader(o.Status) // never a 200 if the handler did not run
	}
}
