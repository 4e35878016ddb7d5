package lockmw

import (
	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/internal/httpguard"
)

// Option changes which requests the middleware locks and how it answers. How it
// locks is the guard's business: pass g.With(...).
type Option interface{ apply(*config) }

// AnswerOption is an Option that changes how errors are answered. Given to
// [Answers] it does so for all routes.
type AnswerOption interface {
	Option
	set(*answers)
}

type config struct {
	answers

	skip func(*gin.Context) bool // nil: none

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

type answerFunc func(*answers)

func (f answerFunc) apply(c *config) { f(&c.answers) }
func (f answerFunc) set(a *answers)  { f(a) }

// Where c carries, for Abort, the answers and the lock of the innermost
// middleware.
const (
	answersKey = "github.com/go-lockguard/guard/middleware/gin.answers"
	lockKey    = "github.com/go-lockguard/guard/middleware/gin.lock"
)

// WithErrorHandler replaces the answers of this middleware, and of [Abort] and
// middleware of this package behind it. f gets every error that is to be
// answered, also the one of a client that has gone; the chain is aborted and
// the status set already, as outcome.Of says, so f may write nothing. It panics
// if f is nil.
func WithErrorHandler(f func(c *gin.Context, err error)) AnswerOption {
	if f == nil {
		panic("lockmw: the error handler is nil")
	}
	return answerFunc(func(a *answers) { a.OnError = &f })
}

// WithHeldStatus answers a key that was held until MaxWait ended with status
// instead of 409: 423, 429 or 503, or 409 again on one route. Code and body
// stay, and outcome.Of gives the same status to an error handler. It panics for
// any other status.
//
// For a key that a handler wanted itself, 429 and 503 become 409: clients
// repeat those by themselves, and part of the work may be done.
func WithHeldStatus(status int) AnswerOption {
	heldstatus.Check(status)
	return answerFunc(func(a *answers) { a.Held = status })
}

// WithSkipper lets requests for which f reports true through without a lock. It
// panics if f is nil.
func WithSkipper(f func(c *gin.Context) bool) Option {
	if f == nil {
		panic("lockmw: the skipper is nil")
	}
	return optionFunc(func(c *config) { c.skip = f })
}

// WithBodyLimit sets how many bytes of a body the middleware reads before the
// wait, and finds a key's value in. A longer body is not read ahead: if the key
// needs it the answer is 413, if not the waiter stays in the queue although its
// client has gone. The memory is there as long as the request. Default 64 KiB;
// 0 reads nothing. It panics if n is negative.
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
