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

	bodyLimit int
}

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

// Where c carries, for Abort, the innermost error handler and the innermost middleware.
const (
	errorHandlerKey = "github.com/go-lockguard/guard/middleware/gin.errorHandler"
	lockKey         = "github.com/go-lockguard/guard/middleware/gin.lock"
)

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
func SafeMethods(c *gin.Context) bool { return httpguard.IsSafe(c.Request.Method) }
