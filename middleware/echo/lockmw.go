package lockmw

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

// Key returns a middleware that serves one request at a time for each key that
// template makes, see [keyfunc.Parse]: "stock:{sku}" is guard.Key("stock",
// c.Param("sku")). It panics if the template is bad, or has no placeholder. A
// nil g is the default guard, looked up at each request; for a route's own
// settings pass g.With(...).
//
// A request waits for its key for at most MaxWait. The handler runs only under
// the lease, with c.Request().Context() ending when the lease is lost, and its
// error is returned untouched. For every other outcome an *echo.HTTPError is
// returned, with the answer of package outcome as its message and the cause as
// its Internal error. Two are special: for a client that has gone the response
// is ended without a body, and if a deadline outside the guard ended the wait,
// the context's own error is returned, for the middleware that set it.
func Key(g *guard.Guard, template string, opts ...Option) echo.MiddlewareFunc {
	t := httpguard.Template(template)
	return newMiddleware(g, func(x *exchange) (string, error) { return t.Key(x.c.Request(), x) }, opts)
}

// Static is [Key] for one constant key, which all requests wait for: jobs that
// may run once at a time, whatever they are about. It is written like a
// template, "jobs:nightly" for guard.Key("jobs", "nightly"), and panics if it
// has a placeholder.
func Static(g *guard.Guard, key string, opts ...Option) echo.MiddlewareFunc {
	key = httpguard.Constant(key)
	return newMiddleware(g, func(*exchange) (string, error) { return key, nil }, opts)
}

// KeyFunc is [Key] with a function that makes the key of the request. Path
// parameters are in its PathValue, decoded.
func KeyFunc(g *guard.Guard, key keyfunc.Func, opts ...Option) echo.MiddlewareFunc {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, func(x *exchange) (string, error) {
		setPath(x.c)
		return key(x.c.Request())
	}, opts)
}

// KeyFrom is [Key] with a function that makes the key of the echo.Context, for
// values that an earlier middleware put there. Build the key with guard.Key. An
// error that is not one of keyfunc or guard is logged, and returned as it is.
func KeyFrom(g *guard.Guard, key func(echo.Context) (string, error), opts ...Option) echo.MiddlewareFunc {
	if key == nil {
		panic("lockmw: the key function is nil")
	}
	return newMiddleware(g, func(x *exchange) (string, error) { return key(x.c) }, opts)
}

func newMiddleware(g *guard.Guard, key func(*exchange) (string, error), opts []Option) echo.MiddlewareFunc {
	cfg := newConfig(opts)
	lock := httpguard.New(g, cfg.bodyLimit)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if cfg.skip != nil && cfg.skip(c) {
				return next(c)
			}
			if cfg.answers.Any() {
				before := answersIn(c)
				c.Set(answersKey, cfg.answers.Over(before))
				defer c.Set(answersKey, before)
			}
			x := exchanges.Get().(*exchange)
			*x = exchange{c: c, key: key, next: next}
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

// Error makes of err, returned by guard or keyfunc inside a handler, the
// *echo.HTTPError that the middleware would have returned; any other error, or
// nil, is returned as it is. Return it from the handler:
//
//	if err := stock.Buy(c.Request().Context(), c.Param("sku")); err != nil {
//		return lockmw.Error(err)
//	}
//
// The answer never has a Retry-After, because the handler may have done part of
// its work. Some clients repeat 429 and 503 even so: a handler that must not
// run twice takes its keys before it does anything, see docs/http.md. One that
// has done nothing yet says so by outcome.Write(c.Response(), o), with the o of
// [outcome.Of], and returns nil.
//
// An empty key is our own mistake, 500. Where it is the client's, say so,
// before or after: with &keyfunc.Error{Source: "json", Name: "sku", Err:
// keyfunc.ErrMissing} the answer is 400.
//
// On the way through a middleware of this package the answer gets its media
// type, and the middleware's error handler its say. On other routes it is
// status and body only.
func Error(err error) error {
	if err == nil {
		return nil
	}
	o, ours := outcome.Of(context.Background(), ran.Mark(err)) //nolint:forbidigo // the middleware will look at the request's own
	if !ours {
		return err
	}
	return &echo.HTTPError{Code: o.Status, Message: &problem{Outcome: o}, Internal: err}
}
