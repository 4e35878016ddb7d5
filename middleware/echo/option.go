package lockmw

import (
	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard/internal/httpguard"
)

// Option changes which requests the middleware locks and how it answers. How it locks is the guard's business: pass
// g.With(...).
type Option interface{ apply(*config) }

type config struct {
	onError errorHandler            // nil: the answers of package outcome
	skip    func(echo.Context) bool // nil: none

	bodyLimit int
}

type errorHandler = func(echo.Context, error) error

func newConfig(opts []Option) config {
	c := config{bodyLimit: httpguard.DefaultBodyLimit}
	for _, o := range opts {
		if o == nil {
			panic("lockmw: an option is nil")
		}
		o.apply(&c)
	}
	return c
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// errorHandlerKey is where c carries the innermost middleware's error handler for middleware inside.
const errorHandlerKey = "github.com/go-lockguard/guard/middleware/echo.errorHandler"

// WithErrorHandler replaces the answers of this middleware, to errors of its own and to those that a handler or another
// middleware of this package inside it returns, see [Error]. f gets every error that is to be answered, also the one of a
// client that has gone; what f returns is returned. If that is nil and f has written nothing, the status that outcome.Of
// says is sent. It panics if f is nil.
func WithErrorHandler(f func(c echo.Context, err error) error) Option {
	if f == nil {
		panic("lockmw: the error handler is nil")
	}
	return optionFunc(func(c *config) { c.onError = f })
}

// WithSkipper lets requests for which f reports true through without a lock; f may be a middleware.Skipper. It panics if
// f is nil.
func WithSkipper(f func(c echo.Context) bool) Option {
	if f == nil {
		panic("lockmw: the skipper is nil")
	}
	return optionFunc(func(c *config) { c.skip = f })
}

// WithBodyLimit sets how many bytes of a body the middleware reads before the wait, and finds a key's value in. A longer
// body is not read ahead: if the key needs it the answer is 413, if not the waiter stays in the queue although its client
// has gone. The memory is there as long as the request. Default 64 KiB; 0 reads nothing. It panics if n is negative.
func WithBodyLimit(n int) Option {
	if n < 0 {
		panic("lockmw: the body limit is negative")
	}
	return optionFunc(func(c *config) { c.bodyLimit = n })
}

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY, for groups
// whose other requests change something:
//
//	group.Use(lockmw.Key(g, "cart:{cart}", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c echo.Context) bool { return httpguard.IsSafe(c.Request().Method) }
