package lockmw

import (
	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard/internal/httpguard"
)

// Option changes which requests the middleware locks and how it answers. How it locks is the guard's business: pass
// g.With(...).
type Option interface{ apply(*config) }

type config struct {
	onError func(*gin.Context, error) // nil: the answers of package outcome
	skip    func(*gin.Context) bool   // nil: none
}

func newConfig(opts []Option) config {
	var c config
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

// errorHandlerKey is where c carries the innermost middleware's error handler for Abort.
const errorHandlerKey = "github.com/go-lockguard/guard/middleware/gin.errorHandler"

// WithErrorHandler replaces the answers of this middleware, and of [Abort] and middleware of this package behind it. f
// gets every error that is to be answered, also the one of a client that has gone; the chain is aborted and the status
// set already, as outcome.Of says, so f may write nothing. It panics if f is nil.
func WithErrorHandler(f func(c *gin.Context, err error)) Option {
	if f == nil {
		panic("lockmw: the error handler is nil")
	}
	return optionFunc(func(c *config) { c.onError = f })
}

// WithSkipper lets requests for which f reports true through without a lock. It panics if f is nil.
func WithSkipper(f func(c *gin.Context) bool) Option {
	if f == nil {
		panic("lockmw: the skipper is nil")
	}
	return optionFunc(func(c *config) { c.skip = f })
}

// SafeMethods is a skipper for GET, HEAD, OPTIONS and TRACE, for groups whose other requests change something:
//
//	group.Use(lockmw.Key(g, "cart:{cart}", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c *gin.Context) bool { return httpguard.IsSafe(c.Request.Method) }
