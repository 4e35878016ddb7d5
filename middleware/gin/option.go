package lockmw

import (
	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

type (
	onError = func(*gin.Context, error)
	answers = httpguard.Answers[onError]
)

// with makes the options, beside those of package httpopt.
var with httpguard.Options[onError, *gin.Context]

// WithErrorHandler replaces the answers of this middleware, and those of
// [Abort] and middleware of this package inside it.
//
// f gets every error that must be answered, including the error of a client
// that has gone. The chain is aborted and the status of outcome.Of is set
// already, so f need not write anything. WithErrorHandler panics if f is nil.
func WithErrorHandler(f func(c *gin.Context, err error)) httpopt.AnswerOption {
	return with.ErrorHandler(f)
}

// WithSkipper lets requests through without a lock if f returns true for them.
// WithSkipper panics if f is nil.
func WithSkipper(f func(c *gin.Context) bool) httpopt.Option { return with.Skipper(f) }

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY. SafeMethods
// is for groups whose other requests change something:
//
//	group.Use(lockmw.Key(g, "cart:{cart}", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c *gin.Context) bool { return httpguard.IsSafe(c.Request.Method) }

// WithReplayHook calls f before [Idempotent] sends the answer of an earlier
// request, for logs and metrics. f blocks the answer. WithReplayHook panics if
// f is nil.
func WithReplayHook(f func(c *gin.Context)) httpopt.IdempotentOption { return with.ReplayHook(f) }

// Answers returns a middleware that sets how locks answer on all routes inside
// it. Answers also sets how [Abort] answers there, in handlers without a lock
// too:
//
//	r.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...httpopt.AnswerOption) gin.HandlerFunc {
	a := httpguard.NewConfig(with, opts).Answers
	return func(c *gin.Context) {
		undo := carry(c, a)
		defer undo()
		c.Next()
	}
}

// The keys under which c carries the answers and the lock of the innermost
// middleware, for Abort.
const (
	answersKey = "github.com/go-lockguard/guard/middleware/gin.answers"
	lockKey    = "github.com/go-lockguard/guard/middleware/gin.lock"
)

func answersIn(c *gin.Context) answers {
	v, _ := c.Get(answersKey)
	a, _ := v.(answers)
	return a
}

// carry makes c carry a, if a sets anything. The function that it returns takes
// a back.
func carry(c *gin.Context, a answers) (undo func()) {
	if !a.Any() {
		return func() {}
	}
	before := answersIn(c)
	c.Set(answersKey, a.Over(before))
	return func() { c.Set(answersKey, before) }
}
