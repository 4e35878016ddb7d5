package lockmw

import (
	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/internal/httpguard"
)

// Option changes which requests the middleware locks and how it answers. To
// change how it locks, pass g.With(...) as the guard.
type Option interface{ apply(*config) }

// AnswerOption is an Option that changes how errors are answered. Given to
// [Answers] it applies to all routes.
type AnswerOption interface {
	Option
	set(*answers)
}

type config struct {
	answers

	skip func(*gin.Context) bool // nil: none

	bodyLimit  int
	idempotent httpguard.IdempotentOptions
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

// The keys under which c carries the answers and the lock of the innermost
// middleware, for Abort.
const (
	answersKey = "github.com/go-lockguard/guard/middleware/gin.answers"
	lockKey    = "github.com/go-lockguard/guard/middleware/gin.lock"
)

// WithErrorHandler replaces the answers of this middleware, and those of
// [Abort] and middleware of this package inside it.
//
// f gets every error that must be answered, including the error of a client
// that has gone. The chain is aborted and the status of outcome.Of is set
// already, so f need not write anything. WithErrorHandler panics if f is nil.
func WithErrorHandler(f func(c *gin.Context, err error)) AnswerOption {
	if f == nil {
		panic("lockmw: the error handler is nil")
	}
	return answerFunc(func(a *answers) { a.OnError = &f })
}

// WithHeldStatus sets the status of the answer for a key that was held until
// MaxWait ended. status is 423, 429 or 503 in place of 409, or 409 again on one
// route. Code and body stay the same. outcome.Of gives the same status to an
// error handler. WithHeldStatus panics for any other status.
//
// For a key that a handler wanted itself, 429 and 503 become 409. Clients
// repeat those two by themselves, and part of the work may be done.
func WithHeldStatus(status int) AnswerOption {
	heldstatus.Check(status)
	return answerFunc(func(a *answers) { a.Held = status })
}

// WithSkipper lets requests through without a lock if f returns true for them.
// It panics if f is nil.
func WithSkipper(f func(c *gin.Context) bool) Option {
	if f == nil {
		panic("lockmw: the skipper is nil")
	}
	return optionFunc(func(c *config) { c.skip = f })
}

// WithBodyLimit sets how many bytes of a body the middleware reads before the
// wait. A key's value is found in these bytes only. The default is 64 KiB, and
// 0 reads nothing. The memory is held as long as the request. WithBodyLimit
// panics if n is negative.
//
// A longer body is not read ahead. If the key needs it the answer is 413. If
// not, the waiter stays in the queue although its client has gone.
func WithBodyLimit(n int) Option {
	if n < 0 {
		panic("lockmw: the body limit is negative")
	}
	return optionFunc(func(c *config) { c.bodyLimit = n })
}

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY. It is for
// groups whose other requests change something:
//
//	group.Use(lockmw.Key(g, "cart:{cart}", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c *gin.Context) bool { return httpguard.IsSafe(c.Request.Method) }
