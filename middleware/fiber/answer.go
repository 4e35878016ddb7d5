package lockmw

import (
	"errors"
	"maps"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/leasekey"
	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/outcome"
)

type answers = httpguard.Answers[func(fiber.Ctx, error) error]

// The keys under which c carries the answers, the lock and the lease of the
// innermost middleware, for [Error]. Their type is any because c takes that.
// Strings would have to be converted at each request.
var (
	answersKey any = "github.com/go-lockguard/guard/middleware/fiber.answers"
	lockKey    any = "github.com/go-lockguard/guard/middleware/fiber.lock"
	leaseKey   any = leasekey.Key
)

// Answers returns a middleware that sets how locks answer on all routes inside
// it. It also sets how [Error] answers there, in handlers without a lock too:
//
//	app.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...AnswerOption) fiber.Handler {
	var a answers
	for _, o := range opts {
		if o == nil {
			panic("lockmw: an option is nil")
		}
		o.set(&a)
	}
	return func(c fiber.Ctx) error {
		before := answersIn(c)
		c.Locals(answersKey, a.Over(before))
		defer c.Locals(answersKey, before)
		return c.Next()
	}
}

func answersIn(c fiber.Ctx) answers {
	a, _ := c.Locals(answersKey).(answers)
	return a
}

// Error answers an error that guard or keyfunc returned inside a handler, as
// the middleware would have done, and returns nil. It drops the body that the
// handler has written. Any other error, or nil, is returned unchanged, and
// nothing is done.
//
//	if err := stock.Buy(c.Context(), sku); err != nil {
//		return lockmw.Error(c, err)
//	}
//
// The answer never has a Retry-After, because the handler may have done part of
// its work. Some clients repeat 429 and 503 even so. A handler that must not
// run twice takes its keys before it does anything, see docs/http.md.
//
// An empty key is treated as a server error and answered with 500. If the
// client left the value out, use the error &keyfunc.Error{Source: "json", Name:
// "sku", Err: keyfunc.ErrMissing}. Then the answer is 400.
func Error(c fiber.Ctx, err error) error {
	if _, ours := outcome.Of(c.Context(), err); !ours {
		return err
	}
	lock, _ := c.Locals(lockKey).(*httpguard.Lock)
	return answer(c, lock, ran.Mark(err))
}

// answer answers err, or returns the error for fiber's error handler.
func answer(c fiber.Ctx, lock *httpguard.Lock, err error) error {
	a := answersIn(c)
	err = heldstatus.With(err, a.Held)
	x := exchange{c: c}
	o, ours := lock.Outcome(x.light(), c.Route().Path, err)
	if !ours {
		o.Status = http.StatusInternalServerError
	}
	endStream(c)
	if a.OnError == nil && !ours {
		return hidden(err)
	}
	c.Response().ResetBody() // a lost lease may find a body there
	c.Status(o.Status)       // in case an error handler writes nothing: never a 200 if the handler did not run
	if a.OnError != nil {
		return (*a.OnError)(c, err)
	}
	if o.Code == "" {
		c.Response().Header.SetNoDefaultContentType(true)
		return nil // the status is for the log: the client has gone
	}
	prepare(c, o)
	return c.Send(o.Body())
}

// prepare sets the headers of o. It removes headers that a handler has set for
// a body of its own.
func prepare(c fiber.Ctx, o outcome.Outcome) {
	had, want := headers(c.Response()), http.Header{}
	h := &c.Response().Header
	maps.Copy(want, had)
	o.Prepare(want)
	for name := range had {
		if _, kept := want[name]; !kept {
			h.Del(name)
		}
	}
	for _, name := range []string{fiber.HeaderContentType, fiber.HeaderRetryAfter} {
		if v := want.Get(name); v != "" {
			h.Set(name, v)
		}
	}
}

// hidden returns an error whose text tells the client nothing, because fiber's
// own error handler sends the text. An err that is made for clients is returned
// unchanged.
func hidden(err error) error {
	var own *fiber.Error
	if errors.As(err, &own) {
		return err
	}
	return &hiddenError{err}
}

// hiddenError is an error of a key function. It has been logged.
type hiddenError struct{ err error }

func (*hiddenError) Error() string   { return "Internal Server Error" }
func (e *hiddenError) Unwrap() error { return e.err }

// setAnswers makes c carry the answers of the options, if there are any. The
// function that it returns takes them back.
func (cfg *config) setAnswers(c fiber.Ctx) (undo func()) {
	if !cfg.answers.Any() {
		return func() {}
	}
	before := answersIn(c)
	c.Locals(answersKey, cfg.answers.Over(before))
	return func() { c.Locals(answersKey, before) }
}
