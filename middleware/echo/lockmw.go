package lockmw

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// Key returns a middleware that serves one request at a time for each key that
// template makes. The template "stock:{sku}" is guard.Key("stock",
// c.Param("sku")). [keyfunc.Parse] describes templates. Key panics if the
// template is bad or has no placeholder.
//
// A nil g is the default guard, looked up at each request. For a route's own
// settings pass g.With(...).
//
// A request waits for its key for at most MaxWait. The handler runs only under
// the lease, and its error is returned unchanged. c.Request().Context() ends
// when the lease is lost.
//
// For every other outcome an *echo.HTTPError is returned. Its message is the
// answer of package outcome, and its Internal error is the cause. There are two
// exceptions. For a client that has gone the response is ended without a body.
// If a deadline outside the guard ended the wait, the context's own error is
// returned, for the middleware that set it.
func Key(g *guard.Guard, template string, opts ...httpopt.Option) echo.MiddlewareFunc {
	return newMiddleware(g, httpguard.OfTemplate(template), opts)
}

// Static is [Key] for one constant key that all requests wait for. Static is
// for jobs that may run only once at a time, whatever their parameters. key is
// written like a template. For example, "jobs:nightly" is guard.Key("jobs",
// "nightly"). Static panics if key has a placeholder.
func Static(g *guard.Guard, key string, opts ...httpopt.Option) echo.MiddlewareFunc {
	return newMiddleware(g, httpguard.OfConstant(key), opts)
}

// KeyFunc is [Key] with a function that makes the key of the request. Path
// parameters are in the request's PathValue, decoded.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...httpopt.Option) echo.MiddlewareFunc {
	return newMiddleware(g, httpguard.OfRequest(key), opts)
}

// KeyFrom is [Key] with a function that makes the key of the echo.Context.
// KeyFrom is for values that an earlier middleware put there. Build the key
// with guard.Key. An error that is not one of keyfunc or guard is logged and
// returned unchanged.
func KeyFrom(g *guard.Guard, key func(echo.Context) (string, error), opts ...httpopt.Option) echo.MiddlewareFunc {
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
func Keys(g *guard.Guard, templates ...string) echo.MiddlewareFunc {
	return newMiddleware(g, httpguard.OfTemplates(templates), nil)
}

// KeysFunc is [Keys] with a function that makes the keys of the request, as
// [KeyFunc] is to [Key]. No keys at all are a server error. If the client left
// them out, return an error of keyfunc.
func KeysFunc(g *guard.Guard, keys func(*http.Request) ([]string, error), opts ...httpopt.Option) echo.MiddlewareFunc {
	return newMiddleware(g, httpguard.SeveralOfRequest(keys), opts)
}

func newMiddleware(g *guard.Guard, keys httpguard.Source, opts []httpopt.Option) echo.MiddlewareFunc {
	return routes.Lock(g, keys, httpguard.NewConfig(with, opts))
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
// is kept. [httpopt] says which answers are, and a [guard.NothingDone] is one
// that the handler returns. If the lease is lost, the answer is 500 and nothing
// is kept.
//
// The application's HTTPErrorHandler answers errors of the handler, because its
// answers are kept too. Therefore middleware outside sees no error.
//
// Requests with safe methods pass, and their handler has no lease. docs/http.md
// says what clients send and get.
func Idempotent(
	g *guard.Guard, scope keyfunc.Func, ttl time.Duration, opts ...httpopt.IdempotentOption,
) echo.MiddlewareFunc {
	return routes.Idempotent(g, httpguard.ScopeOfRequest(scope), ttl, httpguard.NewConfig(with, opts))
}

// IdempotentFrom is [Idempotent] with a scope that a function finds in the
// echo.Context. IdempotentFrom is for the user or tenant that an authentication
// has put there with c.Set. Its errors are answered as those of [KeyFrom].
func IdempotentFrom(
	g *guard.Guard, scope func(echo.Context) (string, error), ttl time.Duration, opts ...httpopt.IdempotentOption,
) echo.MiddlewareFunc {
	return routes.Idempotent(g, httpguard.ScopeOfContext(scope), ttl, httpguard.NewConfig(with, opts))
}

// Error turns an error of guard or keyfunc into the *echo.HTTPError that the
// middleware would have returned. Any other error, or nil, is returned
// unchanged. Return the result from the handler:
//
//	if err := stock.Buy(c.Request().Context(), c.Param("sku")); err != nil {
//		return lockmw.Error(err)
//	}
//
// The answer never has a Retry-After, because the handler may have done part of
// its work. Some clients repeat 429 and 503 even so. A handler that must not
// run twice takes its keys before it does anything, see docs/http.md. A handler
// that has done nothing yet may call outcome.Write(c.Response(), o) with the o
// of outcome.Of and return nil. The answer then has a Retry-After.
//
// An empty key is treated as a server error and answered with 500. If the
// client left the value out, use the error &keyfunc.Error{Source: "json", Name:
// "sku", Err: keyfunc.ErrMissing}. The answer is then 400.
//
// A middleware of this package that the error passes sets the media type of the
// answer, and applies its own error handler. On other routes the answer is
// status and body only.
func Error(err error) error { return routes.Error(err) }
