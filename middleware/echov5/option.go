package lockmw

import (
	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard/internal/echoguard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// with makes the options, beside those of package httpopt.
var with echoguard.Options[*echo.Context]

// WithErrorHandler replaces the answers of this middleware. These are those
// to its own errors, and to errors that a handler (see [Error]) or an inner
// middleware of this package returns.
//
// f gets every error that must be answered, including the error of a client
// that has gone. The middleware returns the error that f returns. If that is
// nil and f has written nothing, the status of outcome.Of is sent.
// WithErrorHandler panics if f is nil.
func WithErrorHandler(f func(c *echo.Context, err error) error) httpopt.AnswerOption {
	return with.ErrorHandler(f)
}

// WithSkipper lets requests through without a lock if f returns true for them.
// f may be a middleware.Skipper. WithSkipper panics if f is nil.
func WithSkipper(f func(c *echo.Context) bool) httpopt.Option { return with.Skipper(f) }

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY. SafeMethods
// is for groups whose other requests change something:
//
//	group.Use(lockmw.Key(g, "cart:{cart}", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c *echo.Context) bool { return httpguard.IsSafe(c.Request().Method) }

// WithReplayHook calls f before [Idempotent] sends the answer of an earlier
// request, for logs and metrics. f blocks the answer. WithReplayHook panics if
// f is nil.
func WithReplayHook(f func(c *echo.Context)) httpopt.IdempotentOption { return with.ReplayHook(f) }

// Answers returns a middleware that sets how locks answer on all routes inside
// it. Answers also sets how [Error] answers there, in handlers without a lock
// too:
//
//	e.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...httpopt.AnswerOption) echo.MiddlewareFunc {
	return routes.Answers(httpguard.NewConfig(with, opts).Answers)
}
