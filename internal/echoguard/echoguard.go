// Package echoguard is what the adapters of echo v4 and v5 share. The package
// imports neither version.
package echoguard

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

// Context has the methods that the contexts of both versions have.
type Context interface {
	Request() *http.Request
	SetRequest(r *http.Request)
	Path() string
	NoContent(status int) error
	Get(key string) any
	Set(key string, value any)
}

// Version is what each version does in its own way. Version is safe for
// concurrent use.
type Version[C Context] interface {
	ParamAt(c C, i int) (name, value string, more bool) // the i-th path parameter; more is false after the last
	AsSent(c C) bool                                    // whether the values of parameters are not decoded
	Unmatched(c C) bool                                 // whether the router has found no route
	Moved(stack []string) bool                          // for [httpguard.Place]

	Response(c C) http.ResponseWriter
	SetResponse(c C, w http.ResponseWriter)                 // w is of Response or NewResponse
	NewResponse(c C, held *Capture) http.ResponseWriter     // writes to held
	Committed(c C) (begun *bool, below http.ResponseWriter) // whether the response has begun, and its writer
	Status(c C) int                                         // of the response so far
	HandleError(c C, err error)                             // as the application does

	TooLarge(err error) error                 // the error of echo's BodyLimit in err, or nil
	Error(p Problem, cause error) error       // the error that answers p
	Find(err error) (p *Problem, cause error) // of an error that Error made; nil if there is none
}

type (
	// Config is what the options of an adapter set.
	Config[C any] = httpguard.Config[func(C, error) error, C]

	// Options makes the options of an adapter.
	Options[C any] = httpguard.Options[func(C, error) error, C]

	// Capture is below the response of a request whose answer is held back.
	Capture = httpguard.Capture

	answers[C any] = httpguard.Answers[func(C, error) error]
)

// Problem is an outcome that echo's error handlers write as JSON.
type Problem struct {
	outcome.Outcome

	header http.Header // of the response, once the middleware has prepared it
}

// MarshalJSON returns the body and sets the media type of the response.
// MarshalJSON does not set it earlier, because an application's own error
// handler may write something else.
func (p *Problem) MarshalJSON() ([]byte, error) {
	if p.header != nil {
		p.header.Set("Content-Type", outcome.ContentType)
	}
	return p.Body(), nil
}

func (p *Problem) String() string { return p.Detail }

// Routes makes the middleware of an adapter. H and M are echo's HandlerFunc and
// MiddlewareFunc. Routes is safe for concurrent use.
type Routes[C Context, H ~func(C) error, M ~func(H) H] struct {
	version Version[C]
	key     string // under which a context carries the answers of the innermost middleware

	// exchanges are reused, as echo reuses its contexts. No exchange is
	// referred to after its request.
	exchanges sync.Pool
}

// New returns the Routes of a version. name is that of the adapter.
func New[C Context, H ~func(C) error, M ~func(H) H](v Version[C], name string) *Routes[C, H, M] {
	return &Routes[C, H, M]{
		version: v, key: "github.com/go-lockguard/guard/middleware/" + name + ".answers",
		exchanges: sync.Pool{New: func() any { return new(exchange[C]) }},
	}
}

// Lock returns a middleware that serves requests under the lease of their keys.
func (r *Routes[C, H, M]) Lock(g *guard.Guard, keys httpguard.Source, cfg Config[C]) M {
	lock, misplaced := cfg.Lock(g), httpguard.Place(r.version.Moved)
	return func(next H) H { // echo v4 calls this for each request
		return func(c C) error {
			if cfg.Skips(c) {
				return next(c)
			}
			undo := r.carry(c, cfg.Answers)
			defer undo()
			if err := misplaced(c.Path()); err != nil {
				return r.answer(c, lock, err)
			}
			x := r.exchanges.Get().(*exchange[C])
			*x = exchange[C]{version: r.version, c: c, keys: keys, next: next}
			err, own := lock.Serve(x), x.err
			*x = exchange[C]{}
			r.exchanges.Put(x) // not after a panic
			switch {
			case err == nil:
				return r.returned(c, lock, own)
			case r.unmatched(c, err):
				return next(c) // echo's own 404 or 405
			case own != nil:
				err = errors.Join(err, own) // the loss of the lease, and what the handler made of it
			}
			return r.answer(c, lock, err)
		}
	}
}

// Idempotent returns a middleware that carries out each request once.
func (r *Routes[C, H, M]) Idempotent(
	g *guard.Guard, scope httpguard.Source, ttl time.Duration, cfg Config[C],
) M {
	once, misplaced := cfg.Idempotent(g, ttl), httpguard.Place(r.version.Moved)
	return func(next H) H {
		answered := r.answeredInside(once.Lock, next)
		return func(c C) error {
			if httpguard.IsSafe(c.Request().Method) || cfg.Skips(c) {
				return next(c)
			}
			undo := r.carry(c, cfg.Answers)
			defer undo()
			if err := misplaced(c.Path()); err != nil {
				return r.answer(c, once.Lock, err)
			}
			x := &heldExchange[C]{
				exchange: exchange[C]{version: r.version, c: c, keys: scope, next: answered}, limit: once.Limit(),
			}
			err := once.Serve(x)
			switch {
			case err == nil:
				return nil
			case errors.Is(err, httpguard.ErrPasses), r.unmatched(c, err): // then next is echo's own 404 or 405
				return next(c)
			}
			return r.answer(c, once.Lock, err)
		}
	}
}

// answeredInside returns next with its errors answered, because later it is too
// late to keep the answer.
func (r *Routes[C, H, M]) answeredInside(lock *httpguard.Lock, next H) H {
	return func(c C) error {
		if err := r.returned(c, lock, next(c)); err != nil {
			err = httpguard.Bare(c.Request().Context(), err)
			begun, below := r.version.Committed(c)
			if held, ok := below.(*Capture); ok && held.Silent() {
				*begun = false // echo has only taken an informational answer for the answer
			}
			r.version.HandleError(c, err)
		}
		return nil
	}
}

// unmatched reports whether err was caused by a request for which the router
// found no route. In e.Use next is then one of echo's own handlers.
func (r *Routes[C, H, M]) unmatched(c C, err error) bool {
	return errors.Is(err, keyfunc.ErrNoSource) && r.version.Unmatched(c)
}

// Answers returns a middleware that sets a on all routes inside it.
func (r *Routes[C, H, M]) Answers(a answers[C]) M {
	return func(next H) H {
		return func(c C) error {
			undo := r.carry(c, a)
			defer undo()
			return r.returned(c, nil, next(c))
		}
	}
}

func (r *Routes[C, H, M]) answersIn(c C) answers[C] {
	a, _ := c.Get(r.key).(answers[C])
	return a
}

// carry makes c carry a, if a sets anything. The function that it returns takes
// a back.
func (r *Routes[C, H, M]) carry(c C, a answers[C]) (undo func()) {
	if !a.Any() {
		return nothing
	}
	before := r.answersIn(c)
	c.Set(r.key, a.Over(before))
	return func() { c.Set(r.key, before) }
}

// nothing is not generic, because a generic function is made at each use.
func nothing() {}

// Error returns the error that answers an error of guard or keyfunc, and any
// other unchanged.
func (r *Routes[C, H, M]) Error(err error) error {
	if err == nil {
		return nil
	}
	ctx := context.Background() //nolint:forbidigo // the middleware has the request's
	o, ours := outcome.Of(ctx, errnote.With(err, errnote.Ran(true)))
	if !ours {
		return err
	}
	return r.version.Error(Problem{Outcome: o}, err)
}

// returned answers an error that a handler got from Error and returned. It
// leaves all other errors alone. lock is nil for a handler without a lock.
func (r *Routes[C, H, M]) returned(c C, lock *httpguard.Lock, err error) error {
	if err == nil {
		return nil
	}
	if p, cause := r.version.Find(err); p != nil && p.header == nil {
		return r.answer(c, lock, errnote.With(cause, errnote.Ran(true)))
	}
	return err
}

// answer returns the error that answers err, unless the response has begun.
func (r *Routes[C, H, M]) answer(c C, lock *httpguard.Lock, err error) error {
	if begun(r.version, c) {
		return err
	}
	a, ctx := r.answersIn(c), c.Request().Context()
	err = a.Note(err)
	o, ours := lock.Outcome(c.Request(), c.Path(), err)
	if a.OnError != nil {
		if err = (*a.OnError)(c, err); err != nil || begun(r.version, c) {
			return err
		}
		return c.NoContent(o.Status) // never a 200 if the handler did not run
	}
	tooLarge := r.version.TooLarge(err)
	switch {
	case !ours:
		return err
	case o.Code == outcome.CodeKeyInvalid && tooLarge != nil:
		return tooLarge
	case o.Code == "":
		return c.NoContent(o.Status) // for the log: the client has gone
	case o.Code == outcome.CodeWaitAborted && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	}
	header := r.version.Response(c).Header()
	o.Prepare(header)
	header.Del("Content-Type")
	return r.version.Error(Problem{o, header}, err)
}
