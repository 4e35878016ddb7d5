// Package httpguard is how a request passes a guarded route, whatever the
// framework. An adapter says how to read and serve its requests, and writes the
// answer to the error that is left over.
package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/readahead"
	"github.com/go-lockguard/guard/keyfunc"
)

// Exchange is one request on its way through a guarded route. Only [Lock.Serve]
// calls its methods, one at a time.
type Exchange interface {
	Request() *http.Request // as the middleware got it
	Key() (string, error)   // derives the key
	Next(l *guard.Lease)    // serves the request under l's context
	Begun() bool            // whether the response has begun, so that no other answer can be given
	Failed() bool           // whether the handler has answered with a status of 400 or more, or will be answered so
	Pattern() string        // of the route, "" if the router does not tell
}

// Lock is one middleware: what all its requests share. It is safe for
// concurrent use.
type Lock struct {
	guard     *guard.Guard // nil: the default one
	bodyLimit int
	told      sync.Map    // the notes that have been logged
	timed     atomic.Bool // the limits of the server have been looked at
}

// New returns the Lock of a middleware. bodyLimit is how many bytes of a body
// are read before the wait.
func New(g *guard.Guard, bodyLimit int) *Lock { return &Lock{guard: g, bodyLimit: bodyLimit} }

// DefaultBodyLimit is the limit of a middleware without an option for it.
const DefaultBodyLimit = readahead.Limit

// Serve runs x.Next while it holds x's key, and returns the error that is to be
// answered: why x.Next did not run, or that the lease was lost while it ran and
// nothing has been written yet. nil means that there is nothing to do; what
// x.Next itself answered, or failed with, is none of Serve's business. Panic
// and Goexit pass through after the release.
//
// It blocks for the arrival of a small body, for the wait, at most MaxWait, and
// for x.Next.
func (l *Lock) Serve(x Exchange) error {
	if l.bodyLimit != readahead.Limit {
		readahead.SetLimit(x.Request(), l.bodyLimit)
	}
	l.lookAtServer(x)
	key, err := x.Key()
	if err == nil {
		err = l.readAhead(x.Request())
	}
	if err != nil {
		err = overLimit(err)
		l.logKeyFunc(x, err)
		return err
	}
	ran, err := l.pass(x, key)
	switch {
	case err != nil && ran && x.Begun():
		l.logLost(x, key, err)
		return nil
	case fromRequest(key) && errors.Is(err, guard.ErrInvalidKey):
		return fmt.Errorf("%w: %w", keyfunc.ErrInvalid, err)
	}
	return err
}

// fromRequest reports whether a value from the request can be what is wrong
// with key: it is too long. "%!" comes from a key function that misuses fmt.
func fromRequest(key string) bool { return key != "" && !strings.Contains(key, "%!") }

// passage is one x.Next under the lease. They are used again: a closure for
// each request is garbage.
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
// Nobody else sees it.
var errFailed = errors.New("httpguard: the handler has failed")

// pass runs x.Next under the lease. What it returns with ran is only ever the
// loss of the lease.
func (l *Lock) pass(x Exchange, key string) (ran bool, err error) {
	p := passages.Get().(*passage)
	p.exchange, p.ran = x, false
	err = l.guard.Do(x.Request().Context(), key, p.run)
	ran = p.ran
	p.exchange = nil
	passages.Put(p)       // not after a panic: nobody knows where it came from
	if err == errFailed { //nolint:errorlint // alone; together with it there is the loss of the lease
		err = nil
	}
	return ran, err
}

func (p *passage) serve(ctx context.Context) error {
	p.ran = true
	l, _ := guard.LeaseFrom(ctx)
	p.exchange.Next(l)
	if p.exchange.Failed() {
		return errFailed
	}
	return nil
}

// readAhead reads a small body before the wait: only then does net/http notice,
// on HTTP/1, that the client has gone. It also keeps a client that sends slowly
// from holding the key meanwhile. HTTP/2 notices anyway, and there a handler
// may want to answer before it has read all.
func (l *Lock) readAhead(r *http.Request) error {
	if r.ProtoMajor >= 2 || l.bodyLimit == 0 || r.ContentLength > int64(l.bodyLimit) {
		return nil
	}
	if _, _, err := readahead.Body(r); err != nil { // incomplete for good: no reason to wait
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

// IsSafe reports whether method is safe: requests with it only read.
func IsSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY": // RFC 10008
		return true
	}
	return false
}

// GiveBack hands on, from the request that was served to the one that the
// server and the middleware outside know, what they look for when it has been
// served.
func GiveBack(outer, served *http.Request) {
	if outer.MultipartForm == nil {
		outer.MultipartForm = served.MultipartForm // its temporary files, to be removed
	}
	if outer.Pattern == "" {
		outer.Pattern = served.Pattern // of a router inside, for metrics and logs
	}
}
