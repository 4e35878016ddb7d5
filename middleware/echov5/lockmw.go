package lockmw

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/keyfunc"
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
// A request waits for its key for at most MaxWait. The handler runs only under
// the lease, and its error is returned unchanged. c.Request().Context() ends
// when the lease is lost.
//
// For every other outcome an error is returned that echo's error handlers
// answer as package outcome says. It is an echo.HTTPStatusCoder and an
// echo.ProblemErrorer, and its JSON is the body. It wraps an *echo.HTTPError,
// which wraps the cause. There are two exceptions. For a client that has gone
// the response is ended without a body. If a deadline outside the guard ended
// the wait, the context's own error is returned, for the middleware that set
// it.
func Key(g *guard.Guard, template string, opts ...Option) echo.MiddlewareFunc {
	t := httpguard.Template(template)
	return newMiddleware(g, func(x *exchange) (httpguard.Keys, error) {
		return httpguard.One(t.Key(x.c.Request(), x))
	}, opts)
}

// Static is [Key] for one constant key that all requests wait for. It is for
// jobs that may run only once at a time, whatever their parameters. key is
// written like a template. For example, "jobs:nightly" is guard.Key("jobs",
// "nightly"). Static panics if key has a placeholder.
func Static(g *guard.Guard, key string, opts ...Option) echo.MiddlewareFunc {
	key = httpguard.Constant(key)
	return newMiddleware(g, func(*exchange) (httpguard.Keys, error) { return httpguard.One(key, nil) }, opts)
}

// KeyFunc is [Key] with a function that makes the key of the request. Path
// parameters are in the request's PathValue, decoded.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...Option) echo.MiddlewareFunc {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, ofRequest(key), opts)
}

// ofRequest returns the function of the exchange that key is for the request.
func ofRequest(key keyfunc.Func) func(*exchange) (httpguard.Keys, error) {
	return func(x *exchange) (httpguard.Keys, error) {
		setPath(x.c)
		return httpguard.One(key(x.c.Request()))
	}
}

// KeyFrom is [Key] with a function that makes the key of the echo context. It
// is for values that an earlier middleware put there. Build the key with
// guard.Key. An error that is not one of keyfunc or guard is logged and
// returned unchanged.
func KeyFrom(g *guard.Guard, key func(*echo.Context) (string, error), opts ...Option) echo.MiddlewareFunc {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, func(x *exchange) (httpguard.Keys, error) { return httpguard.One(key(x.c)) }, opts)
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
	t := httpguard.Templates(templates)
	return newMiddleware(g, func(x *exchange) (httpguard.Keys, error) {
		return httpguard.All(t.Keys(x.c.Request(), x))
	}, nil)
}

// KeysFunc is [Keys] with a function that makes the keys of the request, as
// [KeyFunc] is to [Key]. No keys at all are a server error. If the client left
// them out, return an error of keyfunc.
func KeysFunc(
	g *guard.Guard, keys func(*http.Request) ([]string, error), opts ...Option,
) echo.MiddlewareFunc {
	if keys == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, func(x *exchange) (httpguard.Keys, error) {
		setPath(x.c)
		return httpguard.All(keys(x.c.Request()))
	}, opts)
}

func newMiddleware(g *guard.Guard, keys func(*exchange) (httpguard.Keys, error), opts []Option) echo.MiddlewareFunc {
	cfg := newConfig(opts)
	cfg.idempotent.OnlyIdempotent()
	lock := httpguard.New(g, cfg.bodyLimit)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			if cfg.skip != nil && cfg.skip(c) {
				return next(c)
			}
			undo := cfg.setAnswers(c)
			defer undo()
			x := exchanges.Get().(*exchange)
			*x = exchange{c: c, keys: keys, next: next}
			err, own := lock.Serve(x), x.err
			*x = exchange{}
			exchanges.Put(x) // not after a panic
			switch {
			case err == nil:
				return returned(c, lock, own)
			case unmatched(c, err):
				return next(c) // echo's own 404 or 405
			default:
				return answer(c, lock, join(err, own))
			}
		}
	}
}

// Error turns an error of guard or keyfunc into the error that the middleware
// would have returned. Any other error, or nil, is returned unchanged. Return
// the result from the handler:
//
//	if err := stock.Buy(c.Request().Context(), c.Param("sku")); err != nil {
//		return lockmw.Error(err)
//	}
//
// The answer never has a Retry-After, because the handler may have done part of
// its work. Some clients repeat 429 and 503 even so. A handler that must not
// run twice takes its keys before it does anything, see docs/http.md.
//
// An empty key is treated as a server error and answered with 500. If the
// client left the value out, use the error &keyfunc.Error{Source: "json", Name:
// "sku", Err: keyfunc.ErrMissing}. Then the answer is 400.
//
// A middleware of this package that the error passes sets the media type of the
// answer, and applies its own error handler. On other routes the answer is
// status and body only.
func Error(err error) error {
	if err == nil {
		return nil
	}
	o, ours := outcome.Of(context.Background(), ran.Mark(err)) //nolint:forbidigo // the middleware has the request's
	if !ours {
		return err
	}
	return newProblem(o, err, nil)
}
