package lockmw

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/outcome"
)

// problem is the message of an *echo.HTTPError. It is an outcome that echo's
// error handler writes as JSON.
type problem struct {
	outcome.Outcome

	header http.Header // of the response, once the middleware has prepared it
}

// MarshalJSON returns the body and sets the media type of the response. It does
// not set it earlier, because an application's own error handler may write
// something else.
func (p *problem) MarshalJSON() ([]byte, error) {
	if p.header != nil {
		p.header.Set(echo.HeaderContentType, outcome.ContentType)
	}
	return p.Body(), nil
}

func (p *problem) String() string { return p.Detail }

// returned answers an error that a handler got from [Error] and returned. It
// leaves all other errors alone. lock is nil for a handler without a lock.
func returned(c echo.Context, lock *httpguard.Lock, err error) error {
	if ours, cause := unanswered(err); ours {
		return answer(c, lock, ran.Mark(cause))
	}
	return err
}

// unanswered reports whether [Error] made err and no inner middleware has
// answered it yet. It returns the cause of err.
func unanswered(err error) (ours bool, cause error) {
	if err == nil {
		return false, nil // before he is allocated
	}
	var he *echo.HTTPError
	if !errors.As(err, &he) {
		return false, nil
	}
	p, ours := he.Message.(*problem)
	return ours && p.header == nil, he.Internal
}

// answer returns the error that answers err, unless the response has begun.
func answer(c echo.Context, lock *httpguard.Lock, err error) error {
	res, ctx := c.Response(), c.Request().Context()
	if res.Committed {
		return err
	}
	a := answersIn(c)
	err = heldstatus.With(err, a.Held)
	o, ours := lock.Outcome(c.Request(), c.Path(), err)
	if !ours {
		o.Status = http.StatusInternalServerError
	}
	if a.OnError != nil {
		if err = (*a.OnError)(c, err); err != nil || res.Committed {
			return err
		}
		return c.NoContent(o.Status) // never a 200 if the handler did not run
	}
	var limit *echo.HTTPError // of echo's BodyLimit
	switch {
	case !ours:
		return err
	case o.Code == outcome.CodeKeyInvalid && errors.As(err, &limit):
		return limit
	case o.Code == "":
		return c.NoContent(o.Status) // for the log: the client has gone
	case o.Code == outcome.CodeWaitAborted && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	}
	o.Prepare(res.Header())
	res.Header().Del(echo.HeaderContentType)
	return &echo.HTTPError{Code: o.Status, Message: &problem{o, res.Header()}, Internal: err}
}

// join returns the loss of a lease together with the error that the handler
// returned because of it.
func join(lost, own error) error {
	if own == nil {
		return lost
	}
	return errors.Join(lost, own)
}
