// Package ran marks errors by whether the guarded function ran.
//
// A refusal that a function returns, of a key inside it, looks like a refusal
// of the key around it. The mark tells them apart, and changes neither the
// text nor what errors.Is and errors.As find.
package ran

import "slices"

// markedError is the error of a function that ran.
type markedError struct{ err error }

// Mark marks err, which must not be nil, as the error of a function that ran.
func Mark(err error) error { return &markedError{err} }

func (e *markedError) Error() string { return e.err.Error() }

func (e *markedError) Unwrap() error { return e.err }

// refusedError is the error of a verb whose function did not run.
type refusedError struct{ err error }

// Refuse makes err, which must not be nil, the error of a verb whose function
// did not run. Marks inside err do not count. They belong to other work, whose
// end ended the wait.
func Refuse(err error) error { return &refusedError{err} }

func (e *refusedError) Error() string { return e.err.Error() }

func (e *refusedError) Unwrap() error { return e.err }

// Marked reports whether err carries a mark. Of joined errors one is enough.
func Marked(err error) bool {
	switch e := err.(type) { //nolint:errorlint // takes it apart itself
	case *markedError:
		return true
	case *refusedError:
		return false
	case interface{ Unwrap() error }:
		return Marked(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), Marked)
	}
	return false
}
