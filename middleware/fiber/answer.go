package lockmw

import (
	"errors"
	"maps"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/outcome"
)

// The keys under which c carries the answers, the lock and the lease of the
// innermost middleware, for [Error]. Their type is any because c takes that.
// Strings would have to be converted at each request.
var (
	answersKey any = "github.com/go-lockguard/guard/middleware/fiber.answers"
	lockKey    any = "github.com/go-lockguard/guard/middleware/fiber.lock"
	leaseKey   any = ctxkey.Key
)

func answersIn(c fiber.Ctx) answers {
	a, _ := c.Locals(answersKey).(answers)
	return a
}

// answer answers err, or returns the error for fiber's error handler.
func answer(c fiber.Ctx, lock *httpguard.Lock, err error) error {
	a := answersIn(c)
	err = a.Note(err)
	x := exchange{c: c}
	o, ours := lock.Outcome(x.light(), c.Route().Path, err)
	endStream(c)
	c.RequestCtx().Hijack(nil) // the handler may have wanted to take over the connection
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

// prepare sets the headers of o. prepare removes headers that a handler has set
// for a body of its own.
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

// hiddenError is an error of a key function. The error has been logged.
type hiddenError struct{ err error }

func (*hiddenError) Error() string   { return "Internal Server Error" }
func (e *hiddenError) Unwrap() error { return e.err }

// carry makes c carry a, if a sets anything. The function that it returns takes
// a back.
func carry(c fiber.Ctx, a answers) (undo func()) {
	if !a.Any() {
		return func() {}
	}
	before := answersIn(c)
	c.Locals(answersKey, a.Over(before))
	return func() {
		if !abandoned(c) {
			c.Locals(answersKey, before)
		}
	}
}
