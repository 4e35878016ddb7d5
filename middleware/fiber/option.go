package lockmw

import (
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/maxwait"
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

	skip func(fiber.Ctx) bool // nil: none

	bodyLimit int
	maxWait   time.Duration
}

// defaultMaxWait is the limit of waits without an option for it.
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

// WithMaxWait sets for how long a request may wait where the guard's MaxWait is
// longer. Default 1 s, because fasthttp does not tell that a client has gone:
// its request stays in the queue, and runs when its turn comes. That a guard's
// MaxWait is shortened is logged once. It panics if d is negative.
func WithMaxWait(d time.Duration) Option {
	maxwait.Check(d)
	return optionFunc(func(c *config) { c.maxWait = d })
}

// WithErrorHandler replaces the answers of this middleware, and of [Error] and
// middleware of this package behind it. f gets every error that is to be
// answered, with the status set already, as outcome.Of says, so f may write
// nothing. What f returns goes to the application's ErrorHandler. It panics if
// f is nil.
func WithErrorHandler(f func(c fiber.Ctx, err error) error) AnswerOption {
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
func WithSkipper(f func(c fiber.Ctx) bool) Option {
	if f == nil {
		panic("lockmw: the skipper is nil")
	}
	return optionFunc(func(c *config) { c.skip = f })
}

// WithBodyLimit sets how many bytes a body may have in which a key's value is
// found; one of a longer body gets 413. Default 64 KiB. It panics if n is
// negative.
func WithBodyLimit(n int) Option {
	if n < 0 {
		panic("lockmw: the body limit is negative")
	}
	return optionFunc(func(c *config) { c.bodyLimit = n })
}

// SafeMethods is a skipper for GET, HEAD, OPTIONS, TRACE and QUERY, for groups
// whose other requests change something:
//
//	group.Use(lockmw.Static(g, "import", lockmw.WithSkipper(lockmw.SafeMethods)))
func SafeMethods(c fiber.Ctx) bool { return httpguard.IsSafe(c.Method()) }
