// Package heldstatus is how a middleware tells package outcome, and whoever
// asks that for the outcome of an error, with which status the application
// answers a held key.
package heldstatus

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-lockguard/guard"
)

// Check panics unless status is one that says "not now": 409, 423, 429 or 503.
func Check(status int) {
	switch status {
	case http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return
	}
	panic(fmt.Sprintf("lockmw: the status of a held key is %d, want 409, 423, 429 or 503", status))
}

// Repeated reports whether clients repeat a request by themselves that is
// answered with status.
func Repeated(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// With returns err with status, or err itself if status is 0 or err says of no
// key that it was held.
func With(err error, status int) error {
	if status == 0 || !errors.Is(err, guard.ErrNotAcquired) {
		return err
	}
	return &statusError{err, status}
}

// Of returns the outermost status that err has, or 0.
func Of(err error) int {
	if with := (*statusError)(nil); errors.As(err, &with) {
		return with.status
	}
	return 0
}

type statusError struct {
	error

	status int
}

func (e *statusError) Unwrap() error { return e.error }
