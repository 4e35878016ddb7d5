package lockmw

import (
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

type (
	onError = func(fiber.Ctx, error) error
	answers = httpguard.Answers[onError]
)

// with makes the options, beside those of package httpopt.
var with = httpguard.Options[onError, fiber.Ctx]{DefaultMaxWait: time.Second}

// WithMaxWait limits the wait of a request if the guard's MaxWait is longer.
// The default is 1 s, because fasthttp does not tell that a client has gone.
// The request of such a client stays in the queue, and runs when its turn
// comes. If a guard's MaxWait is shortened, that is logged once. WithMaxWait
// panics if d is negative.
func WithMaxWait(d time.Duration) httpopt.Option { return with.MaxWait(d) }

// WithErrorHandler replaces the answers of this middleware, and those of
// [Error] and middleware of this package inside it.
//
// f gets every error that must be answered. The status of outcome.Of is set
// already, so f need not write anything. An error that f returns goes to the
// application's ErrorHandler. WithErrorHandler panics if f is nil.
func WithErrorHandler(f func(c fiber.Ctx, err error) error) httpopt.AnswerOption {
	return with.ErrorHandler(f)
}

// WithSkipper lets requests through without a lock if f returns true for them.
// WithSkipper panics if f is nil.
func WithSkipper(f func(c fiber.Ctx) bool) httpopt.Option { return with.Skipper(f) }

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY. SafeMethods
// is for groups whose other requests change something:
//
//	group.Use(lockmw.Static(g, "import", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c fiber.Ctx) bool { return httpguard.IsSafe(c.Method()) }

// WithReplayHook calls f before [Idempotent] sends the answer of an earlier
// request, for logs and metrics. f blocks the answer. WithReplayHook panics if
// f is nil.
func WithReplayHook(f func(c fiber.Ctx)) httpopt.IdempotentOption { return with.ReplayHook(f) }

// Answers returns a middleware that sets how locks answer on all routes inside
// it. Answers also sets how [Error] answers there, in handlers without a lock
// too:
//
//	app.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...httpopt.AnswerOption) fiber.Handler {
	a := httpguard.NewConfig(with, opts).Answers
	return func(c fiber.Ctx) error {
		undo := carry(c, a)
		defer undo()
		return c.Next()
	}
}
