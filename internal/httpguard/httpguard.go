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
	"github.com/go-lockguard/guard/outcome"
)

// Request is one request on its way through a guarded route.
type Request struct {
	Context context.Context
	Route   string                 // for logs: method and pattern, never the path
	Key     func() (string, error) // derives the key
	Next    func(l *guard.Lease)   // serves the request under l's context
	Begun   func() bool            // whether the response has begun, so that no other answer can be given
}

// Serve runs r.Next while it holds r's key, and returns the error that is to be answered: why r.Next did not run, or
// that the lease was lost while it ran and nothing has been written yet. nil means that there is nothing to do; what
// r.Next itself answered, or failed with, is none of Serve's business. Panic and Goexit pass through after the release.
//
// It blocks for the wait, at most MaxWait, and for r.Next. A nil g is the default guard.
func Serve(g *guard.Guard, r Request) error {
	key, err := r.Key()
	if err != nil {
		return err
	}
	ran := false
	err = g.Do(r.Context, key, func(ctx context.Context) error {
		ran = true
		l, _ := guard.LeaseFrom(ctx)
		r.Next(l)
		return nil // so that what Do returns is only ever the loss of the lease
	})
	switch {
	case err == nil || !ran:
		return err
	case r.Begun():
		slog.WarnContext(r.Context, "lock lost after the response had begun", "route", r.Route, "error", err)
		return nil
	case errors.Is(err, guard.ErrLeaseLost):
		return err
	}
	return fmt.Errorf("%w: %w", guard.ErrLeaseLost, err) // given up by Close
}

// Outcome is [outcome.Of] for an error on the given route. It logs what is our own mistake, because the client cannot be
// told more than that there is one.
func Outcome(ctx context.Context, route string, err error) (outcome.Outcome, bool) {
	o, ours := outcome.Of(ctx, err)
	if o.Code == outcome.Misconfigured {
		slog.ErrorContext(ctx, "the lock of a route is misconfigured", "route", route, "error", err)
	}
	return o, ours
}

// GiveBack hands what the server must clean up from the request that was served back to the one that it knows.
func GiveBack(outer, served *http.Request) {
	if outer.MultipartForm == nil {
		outer.MultipartForm = served.MultipartForm // its temporary files
	}
}
