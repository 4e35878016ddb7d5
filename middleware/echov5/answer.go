package lockmw

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/outcome"
)

// returned answers an error that a handler got from [Error] and returned. It
// leaves all other errors alone. lock is nil for a handler without a lock.
func returned(c *echo.Context, lock *httpguard.Lock, err error) error {
	if ours, cause := unanswered(err); ours {
		return answer(c, lock, ran.Mark(cause))
	}
	return err
}

// unanswered reports whether [Error] made err and no inner middleware has
// answered it yet. It returns the cause of err.
func unanswered(err error) (ours bool, cause error) {
	if err == nil {
		return false, nil // before p is allocated
	}
	var p *problem
	if !errors.As(err, &p) || p.header != nil {
		return false, nil
	}
	return true, p.HTTPError.Unwrap()
}

// answer returns the error that answers err, unless the response has begun.
func answer(c *echo.Context, lock *httpguard.Lock, err error) error {
	if begun(c) {
		return err
	}
	a, ctx, header := answersIn(c), c.Request().Context(), c.Response().Header()
	err = heldstatus.With(err, a.Held)
	o, ours := lock.Outcome(c.Request(), c.Path(), err)
	if !ours {
		o.Status = http.StatusInternalServerError
	}
	if a.OnError != nil {
		if err = (*a.OnError)(c, err); err != nil || begun(c) {
			return err
		}
		return c.NoContent(o.Status) // never a 200 if the handler did not run
	}
	switch {
	case !ours:
		return err
	case o.Code == outcome.CodeKeyInvalid && errors.Is(err, echo.ErrStatusRequestEntityTooLarge): // of echo's BodyLimit
		return echo.ErrStatusRequestEntityTooLarge
	case o.Code == "":
		return c.NoContent(o.Status) // for the log: the client has gone
	case o.Code == outcome.CodeWaitAborted && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	}
	o.Prepare(header)
	header.Del(echo.HeaderContentType)
	return newProblem(o, err, header)
}

// begun reports whether the response has begun. It looks through the wrappers
// of other middleware.
func begun(c *echo.Context) bool {
	r, _ := echo.UnwrapResponse(c.Response())
	return r != nil && r.Committed
}

// join returns the loss of a lease together with the error that the handler
// returned because of it.
func join(lost, own error) error {
	if own == nil {
		return lost
	}
	return errors.Join(lost, own)
}
