package lockmw

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/middleware/httpopt"
	"github.com/go-lockguard/guard/outcome"
)

// Key returns a middleware that serves one request at a time for each key that
// template makes. The template "stock:{sku}" is guard.Key("stock",
// c.Param("sku")). [keyfunc.Parse] describes templates. Key panics if the
// template is bad or has no placeholder.
//
// A nil g is the default guard, looked up at each request. For a route's own
// settings pass g.With(...).
//
// A request waits for its key for at most MaxWait. The chain goes on only under
// the lease. c.Request.Context() ends when the lease is lost. Every other
// outcome aborts the chain with an answer of package outcome.
func Key(g *guard.Guard, template string, opts ...httpopt.Option) gin.HandlerFunc {
	return newMiddleware(g, httpguard.OfTemplate(template), opts)
}

// Static is [Key] for one constant key that all requests wait for. Static is
// for jobs that may run only once at a time, whatever their parameters. key is
// written like a template. For example, "jobs:nightly" is guard.Key("jobs",
// "nightly"). Static panics if key has a placeholder.
func Static(g *guard.Guard, key string, opts ...httpopt.Option) gin.HandlerFunc {
	return newMiddleware(g, httpguard.OfConstant(key), opts)
}

// KeyFunc is [Key] with a function that makes the key of the request. Path
// parameters are in the request's PathValue.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...httpopt.Option) gin.HandlerFunc {
	return newMiddleware(g, httpguard.OfRequest(key), opts)
}

// KeyFrom is [Key] with a function that makes the key of the gin.Context.
// KeyFrom is for values that an earlier middleware put there. Build the key
// with guard.Key. An error that is not one of keyfunc or guard is logged and
// added to c.Errors. The status is then 500, unless something has been written.
func KeyFrom(g *guard.Guard, key func(*gin.Context) (string, error), opts ...httpopt.Option) gin.HandlerFunc {
	return newMiddleware(g, httpguard.OfContext(key), opts)
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
func Keys(g *guard.Guard, templates ...string) gin.HandlerFunc {
	return newMiddleware(g, httpguard.OfTemplates(templates), nil)
}

// KeysFunc is [Keys] with a function that makes the keys of the request, as
// [KeyFunc] is to [Key]. No keys at all are a server error. If the client left
// them out, return an error of keyfunc.
func KeysFunc(g *guard.Guard, keys func(*http.Request) ([]string, error), opts ...httpopt.Option) gin.HandlerFunc {
	return newMiddleware(g, httpguard.SeveralOfRequest(keys), opts)
}

func newMiddleware(g *guard.Guard, keys httpguard.Source, opts []httpopt.Option) gin.HandlerFunc {
	cfg := httpguard.NewConfig(with, opts)
	lock, misplaced := cfg.Lock(g), httpguard.Place(moved)
	return func(c *gin.Context) {
		if cfg.Skips(c) {
			return
		}
		undo := carry(c, cfg.Answers)
		defer undo()
		if err := misplaced(c.FullPath()); err != nil {
			answer(c, lock, err)
			return
		}
		x := exchanges.Get().(*exchange)
		*x = exchange{c, lock, keys}
		err := lock.Serve(x)
		*x = exchange{}
		exchanges.Put(x) // not after a panic
		if err != nil {
			answer(c, lock, err)
		}
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
// The chain goes on under a lease, as in [Key]. Its answer is held back until
// it is kept. [httpopt] says which answers are, and a [guard.NothingDone] is
// found in c.Errors. If the lease is lost, the answer is 500 and nothing is
// kept.
//
// A handler that only leaves errors in c.Errors has not answered. What a
// middleware outside makes of them is not kept, and the log says so once.
//
// Requests with safe methods pass, and their handler has no lease. docs/http.md
// says what clients send and get.
func Idempotent(
	g *guard.Guard, scope keyfunc.Func, ttl time.Duration, opts ...httpopt.IdempotentOption,
) gin.HandlerFunc {
	return newIdempotent(g, httpguard.ScopeOfRequest(scope), ttl, opts)
}

// IdempotentFrom is [Idempotent] with a scope that a function finds in the
// gin.Context. IdempotentFrom is for the user or tenant that an authentication
// has put there with c.Set. Its errors are answered as those of [KeyFrom].
func IdempotentFrom(
	g *guard.Guard, scope func(*gin.Context) (string, error), ttl time.Duration, opts ...httpopt.IdempotentOption,
) gin.HandlerFunc {
	return newIdempotent(g, httpguard.ScopeOfContext(scope), ttl, opts)
}

func newIdempotent(
	g *guard.Guard, scope httpguard.Source, ttl time.Duration, opts []httpopt.IdempotentOption,
) gin.HandlerFunc {
	cfg := httpguard.NewConfig(with, opts)
	once, misplaced := cfg.Idempotent(g, ttl), httpguard.Place(moved)
	return func(c *gin.Context) {
		if httpguard.IsSafe(c.Request.Method) || cfg.Skips(c) {
			return
		}
		undo := carry(c, cfg.Answers)
		defer undo()
		if err := misplaced(c.FullPath()); err != nil {
			answer(c, once.Lock, err)
			return
		}
		x := &heldExchange{exchange: exchange{c, once.Lock, scope}, limit: once.Limit()}
		if err := once.Serve(x); err != nil && !errors.Is(err, httpguard.ErrPasses) {
			answer(c, once.Lock, err)
		}
	}
}

// moved reports whether a middleware outside has called c.Next in a goroutine
// of its own. Then gin's engine is not on the stack.
func moved(stack []string) bool {
	return slices.Contains(stack, "github.com/gin-gonic/gin.(*Context).Next") &&
		!slices.ContainsFunc(stack, func(f string) bool {
			return strings.HasPrefix(f, "github.com/gin-gonic/gin.(*Engine).")
		})
}

// Abort answers an error that guard or keyfunc returned inside a handler, as
// the middleware would have done. Abort then aborts the chain and returns true.
// If err is nil or not one of theirs, it does nothing and returns false. If the
// response has begun it writes nothing.
//
//	if err := stock.Buy(c.Request.Context(), sku); lockmw.Abort(c, err) {
//		return
//	}
//
// The answer never has a Retry-After, because the handler may have done part of
// its work. Some clients repeat 429 and 503 even so. A handler that must not
// run twice takes its keys before it does anything, see docs/http.md. A handler
// that has done nothing yet may call outcome.Write(c.Writer, o) with the o of
// [outcome.Of] instead. The answer then has a Retry-After.
//
// An empty key is treated as a server error and answered with 500. If the
// client left the value out, use the error &keyfunc.Error{Source: "json", Name:
// "sku", Err: keyfunc.ErrMissing}. The answer is then 400.
func Abort(c *gin.Context, err error) bool {
	if _, ours := outcome.Of(c.Request.Context(), err); !ours {
		return false
	}
	lock, _ := c.Get(lockKey)
	on, _ := lock.(*httpguard.Lock)
	answer(c, on, errnote.With(err, errnote.Ran(true)))
	return true
}

// answer aborts the chain and answers err, unless the response has begun.
func answer(c *gin.Context, lock *httpguard.Lock, err error) {
	c.Abort()
	if c.FullPath() == "" && c.Writer.Status() >= 400 && errors.Is(err, keyfunc.ErrNoSource) {
		return // in engine.Use: gin has found no route, and its own 404 or 405 follows
	}
	a := answersIn(c)
	err = a.Note(err)
	o, ours := lock.Outcome(c.Request, c.FullPath(), err)
	if !c.Writer.Written() {
		c.Status(o.Status) // in case nothing is written: never a 200 if the handler did not run
	}
	switch {
	case a.OnError != nil:
		(*a.OnError)(c, err)
	case !ours:
		_ = c.Error(err)
	case !c.Writer.Written(): // no c.Error: contention is no error, and 5xx are logged already
		outcome.Write(c.Writer, o)
	}
}
