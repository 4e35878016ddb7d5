// Package httpguard is how a request passes a guarded route, whatever the framework. An adapter says how to read and
// serve its requests, and writes the answer to the error that is left over.
package httpguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/readahead"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

// Exchange is one request on its way through a guarded route. Only [Serve] calls its methods, one at a time.
type Exchange interface {
	Request() *http.Request // as the middleware got it
	Key() (string, error)   // derives the key
	Next(l *guard.Lease)    // serves the request under l's context
	Begun() bool            // whether the response has begun, so that no other answer can be given
	Route() string          // for logs: method and pattern, never the path
}

// Serve runs x.Next while it holds x's key, and returns the error that is to be answered: why x.Next did not run, or
// that the lease was lost while it ran and nothing has been written yet. nil means that there is nothing to do; what
// x.Next itself answered, or failed with, is none of Serve's business. Panic and Goexit pass through after the release.
//
// It blocks for the arrival of a small body, for the wait, at most MaxWait, and for x.Next. A nil g is the default guard.
func Serve(g *guard.Guard, x Exchange) error {
	key, err := x.Key()
	if err == nil {
		err = readAhead(x.Request())
	}
	if err != nil {
		return overLimit(err)
	}
	ran := false
	err = g.Do(x.Request().Context(), key, func(ctx context.Context) error {
		ran = true
		l, _ := guard.LeaseFrom(ctx)
		x.Next(l)
		return nil // so that what Do returns is only ever the loss of the lease
	})
	switch {
	case err == nil || !ran:
		return err
	case x.Begun():
		slog.WarnContext(x.Request().Context(), "lease lost after the response had begun", "route", x.Route(), "error", err)
		return nil
	}
	return err
}

// readAhead reads a small body before the wait: only then does net/http notice, on HTTP/1, that the client has gone. It
// also keeps a client that sends slowly from holding the key meanwhile. HTTP/2 notices anyway, and there a handler may
// want to answer before it has read all.
func readAhead(r *http.Request) error {
	if r.ProtoMajor >= 2 || r.ContentLength > readahead.Limit {
		return nil
	}
	if _, _, err := readahead.Body(r); err != nil { // incomplete for good: no reason to wait
		return &keyfunc.Error{Source: "body", Err: fmt.Errorf("%w: %w", keyfunc.ErrInvalid, err)}
	}
	return nil
}

// overLimit makes err a [keyfunc.ErrTooLarge] if it comes from a limit that the application has set.
func overLimit(err error) error {
	var limit *http.MaxBytesError
	if errors.As(err, &limit) && !errors.Is(err, keyfunc.ErrTooLarge) {
		return fmt.Errorf("%w: %w", keyfunc.ErrTooLarge, err)
	}
	return err
}

// Outcome is [outcome.Of] for an error on a route. It logs what is our own mistake, because the client cannot be told
// more than that there is one.
func Outcome(ctx context.Context, route string, err error) (outcome.Outcome, bool) {
	o, ours := outcome.Of(ctx, err)
	if o.Code == outcome.Misconfigured {
		slog.ErrorContext(ctx, "the lock of a route is misconfigured", "route", route, "error", err)
	}
	return o, ours
}

// IsSafe reports whether method is safe: requests with it only read.
func IsSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// GiveBack hands on, from the request that was served to the one that the server and the middleware outside know, what
// they look for when it has been served.
func GiveBack(outer, served *http.Request) {
	if outer.MultipartForm == nil {
		outer.MultipartForm = served.MultipartForm // its temporary files, to be removed
	}
	if outer.Pattern == "" {
		outer.Pattern = served.Pattern // of a router inside, for metrics and logs
	}
}
