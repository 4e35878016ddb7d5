// Package httpguard leads requests through guarded routes, whatever the
// framework. An adapter defines how its requests are read and served, and
// writes the answer to the error that Serve returns.
package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/readahead"
	"github.com/go-lockguard/guard/keyfunc"
)

// Exchange is one request on its way through a guarded route. Only [Lock.Serve]
// calls its methods, one at a time.
type Exchange interface {
	Request() *http.Request // as the middleware got it
	Keys() (Keys, error)    // derives the keys, as a [Source] does
	Next(l *guard.Lease)    // serves the request under l's context
	Begun() bool            // whether the response has begun, so that no other answer can be given
	Failed() bool           // whether the status of the answer is, or will be, 400 or more
	Pattern() string        // of the route, "" if the router does not tell it
}

// Lock is the state that all requests of one middleware share. Lock is safe for
// concurrent use.
type Lock struct {
	guard     *guard.Guard // nil means the default guard
	bodyLimit int
	told      sync.Map    // the notes that have been logged
	timed     atomic.Bool // whether the server's limits were checked
}

// BodyLimit returns the max number of bytes of a body that are read before the
// wait.
func (l *Lock) BodyLimit() int { return l.bodyLimit }

// Serve runs x.Next while it holds x's keys, and returns the error that the
// adapter must answer. The error is the reason why x.Next did not run. Or it
// says that the lease was lost while x.Next ran and nothing has been written
// yet.
//
// nil means that there is nothing to answer. Serve does not look at x.Next's
// own answers and errors. A panic and a Goexit pass through after the release.
//
// Serve blocks for the arrival of a small body, for the wait of at most
// MaxWait, and for x.Next.
func (l *Lock) Serve(x Exchange) error {
	l.begin(x)
	keys, err := x.Keys()
	if err == nil {
		err = l.readAhead(x.Request())
	}
	if err != nil {
		err = overLimit(err)
		l.logKeyFunc(x, err)
		return Refused(err)
	}
	ran, err := l.pass(x, keys)
	switch {
	case err == nil:
		return nil
	case ran && x.Begun():
		l.logLost(x, keys, err)
		return nil
	case ran:
		return err
	case keys.fromRequest() && errors.Is(err, guard.ErrInvalidKey):
		err = fmt.Errorf("%w: %w", keyfunc.ErrInvalid, err)
	}
	return Refused(err)
}

// Refused returns err as that of a request whose handler has not run. Refused
// leaves errors alone that are not guard's, because frameworks look at their
// type.
func Refused(err error) error {
	if errors.Is(err, guard.ErrNotAcquired) || errors.Is(err, guard.ErrUnavailable) || errors.Is(err, guard.ErrClosed) {
		return errnote.With(err, errnote.Refused(true))
	}
	return err
}

// begin looks at the server, and sets the limit of x's body.
func (l *Lock) begin(x Exchange) {
	if l.bodyLimit != readahead.Limit {
		readahead.SetLimit(x.Request(), l.bodyLimit)
	}
	l.lookAtServer(x)
}

// passage is one call of x.Next under the lease. Passages are reused, because a
// closure for each request would be garbage.
type passage struct {
	exchange Exchange
	ran      bool
	run      func(context.Context) error // serve
}

var passages = sync.Pool{New: func() any {
	p := new(passage)
	p.run = p.serve
	return p
}}

// errFailed tells the guard that the handler has failed, for WithMinHold.
// Callers never see it.
var errFailed = errors.New("the handler has failed")

// pass runs x.Next under the lease. If ran is true, err is nil or the loss of
// the lease.
func (l *Lock) pass(x Exchange, keys Keys) (ran bool, err error) {
	p := passages.Get().(*passage)
	p.exchange, p.ran = x, false
	err = keys.do(x.Request().Context(), l.guard, p.run)
	ran = p.ran
	p.exchange = nil
	passages.Put(p)       // not after a panic, whose origin is unknown
	if err == errFailed { //nolint:errorlint // alone; together with it there is the loss of the lease
		err = nil
	}
	return ran, err
}

func (p *passage) serve(ctx context.Context) error {
	p.ran = true
	l, _ := ctx.Value(ctxkey.Key).(*guard.Lease) // also where there is only a context, see WithFailOpen
	p.exchange.Next(l)
	if p.exchange.Failed() {
		return errFailed
	}
	return nil
}

// readAhead reads a small body before the wait. On HTTP/1 net/http notices only
// then that the client has gone. Reading ahead also keeps a client that sends
// slowly from holding the key meanwhile. On HTTP/2 the server notices anyway,
// and a handler may want to answer before it has read everything.
func (l *Lock) readAhead(r *http.Request) error {
	if r.ProtoMajor >= 2 || l.bodyLimit == 0 || r.ContentLength > int64(l.bodyLimit) {
		return nil
	}
	if _, _, err := readahead.Body(r); err != nil { // it will never be complete, so do not wait
		return &keyfunc.Error{Source: "body", Err: fmt.Errorf("%w: %w", keyfunc.ErrInvalid, err)}
	}
	return nil
}

// overLimit makes err a [keyfunc.ErrTooLarge] if it comes from a limit that the
// application has set.
func overLimit(err error) error {
	var limit *http.MaxBytesError
	if errors.As(err, &limit) && !errors.Is(err, keyfunc.ErrTooLarge) {
		return fmt.Errorf("%w: %w", keyfunc.ErrTooLarge, err)
	}
	return err
}

// Bare returns the error of a handler without a note that nothing was done, for
// the framework's error handler. Bare passes such a note on to the Idempotent
// around the handler, whose context is ctx.
func Bare(ctx context.Context, err error) error {
	if errnote.Is(err, errnote.NothingDone(true)) {
		ctxkey.RefusalIn(ctx).Answered(false)
	}
	return errnote.Bare(err)
}

// IsSafe reports whether method is safe, which means that its requests only
// read.
func IsSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY": // RFC 10008
		return true
	}
	return false
}

// GiveBack copies fields from the served request to the outer one. These fields
// are those that the server and outer middleware read after the request.
func GiveBack(outer, served *http.Request) {
	if outer.MultipartForm == nil {
		outer.MultipartForm = served.MultipartForm // its temporary files, to be removed
	}
	if outer.Pattern == "" {
		outer.Pattern = served.Pattern // of a router inside, for metrics and logs
	}
}
