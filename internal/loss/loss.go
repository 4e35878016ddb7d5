// Package loss names the reason for the loss of a lease, for metrics and spans.
// The error itself tells it to people.
package loss

import (
	"errors"

	"github.com/go-lockguard/guard/locker"
)

// A Reason is one of few words. It fits a metric.
type Reason string

// The reasons.
const (
	Deadline Reason = "deadline" // it was not renewed before its deadline
	Taken    Reason = "taken"    // the store says that the key is not ours any more
	Forced   Reason = "forced"   // the same, after the key was released by force
	Closed   Reason = "closed"   // the guard was closed
	MaxHold  Reason = "max_hold" // the turn lasted longer than MaxHold
	Outlived Reason = "outlived" // a lease inside it was not released before it
)

// Reasons returns all of them.
func Reasons() []Reason { return []Reason{Deadline, Taken, Forced, Closed, MaxHold, Outlived} }

type reasonError struct {
	reason Reason
	err    error
}

func (e *reasonError) Error() string { return e.err.Error() }
func (e *reasonError) Unwrap() error { return e.err }

// Because adds the reason to err, which must not be nil. Its text stays the
// same.
func Because(r Reason, err error) error { return &reasonError{r, err} }

// Of returns the reason that err carries. If err carries none, Of returns
// Taken, because only a store loses a lease without a reason.
func Of(err error) Reason {
	if e := (*reasonError)(nil); errors.As(err, &e) {
		return e.reason
	}
	return Taken
}

// ErrMaxHold is the locker.ErrLeaseLost of a turn that lasted longer than
// MaxHold.
var ErrMaxHold error = maxHoldError("guard: held longer than the limit that WithMaxHold sets")

type maxHoldError string

func (e maxHoldError) Error() string        { return string(e) }
func (e maxHoldError) Is(target error) bool { return target == locker.ErrLeaseLost }
