package lockmw

import (
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/maxwait"
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

	skip func(fiber.Ctx) bool // nil: none

	bodyLimit  int
	maxWait    time.Duration
	idempotent httpguard.IdempotentOptions
}

// defaultMaxWait is the limit of waits without a WithMaxWait option.
const defaultMaxWait = time.Second

func newConfig(opts []Option) config {
	c := config{bodyLimit: httpguard.DefaultBodyLimit, maxWait: defaultMaxWait}
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

// WithMaxWait limits the wait of a request if the guard's MaxWait is longer.
// The default is 1 s, because fasthttp does not tell that a client has gone.
// The request of such a client stays in the queue, and runs when its turn
// comes. If a guard's MaxWait is shortened, that is logged once. WithMaxWait
// panics if d is negative.
func WithMaxWait(d time.Duration) Option {
	maxwait.Check(d)
	return optionFunc(func(c *config) { c.maxWait = d })
}

// WithErrorHandler replaces the answers of this middleware, and those of
// [Error] and middleware of this package inside it.
//
// f gets every error that must be answered. The status of outcome.Of is set
// already, so f need not write anything. An error that f returns goes to the
// application's ErrorHandler. WithErrorHandler panics if f is nil.
func WithErrorHandler(f func(c fiber.Ctx, err error) error) AnswerOption {
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
func WithSkipper(f func(c fiber.Ctx) bool) Option {
	if f == nil {
		panic("lockmw: the skipper is nil")
	}
	return optionFunc(func(c *config) { c.skip = f })
}

// WithBodyLimit sets the max number of bytes of a body in which a key's value
// is found. If the key needs a longer body the answer is 413. The default is 64
// KiB. WithBodyLimit panics if n is negative.
func WithBodyLimit(n int) Option {
	if n < 0 {
		panic("lockmw: the body limit is negative")
	}
	return optionFunc(func(c *config) { c.bodyLimit = n })
}

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY. It is for
// groups whose other requests change something:
//
//	group.Use(lockmw.Static(g, "import", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c fiber.Ctx) bool { return httpguard.IsSafe(c.Method()) }
