// Package errnote notes facts at errors, for code further out. A note changes
// neither the text of an error nor what errors.Is and errors.As find in it.
package errnote

import (
	"errors"
	"slices"
)

// Ran is a note of whether the guarded function ran. A refusal that a function
// returns, of a key inside it, looks like a refusal of the key around it. The
// note true tells them apart. A verb whose function did not run notes false at
// the error of other work that ended its wait.
type Ran bool

// Refused is a note that a middleware has not let a request through, so nothing
// inside of it was done. Inside of another middleware it looks like a refusal
// that a handler got.
type Refused bool

// NoLock is a note that a value which a request lacks is not for the key of a
// lock.
type NoLock bool

// NothingDone is a note of whether a function has done nothing. Once notes
// false at what it returns, because a function around it may have done
// something.
type NothingDone bool

// HeldStatus is a note of the status with which an application answers a held
// key. Package outcome reads it.
type HeldStatus int

// noted is an error with a note.
type noted[T any] struct {
	error

	note T
}

func (e *noted[T]) Unwrap() error { return e.error }
func (e *noted[T]) bare() error   { return e.error }

// Bare returns err without the notes around it, for code that looks at the type
// of an error.
func Bare(err error) error {
	for {
		e, found := err.(interface{ bare() error }) // only what is outermost
		if !found {
			return err
		}
		err = e.bare()
	}
}

// With returns err, which must not be nil, with a note.
func With[T any](err error, note T) error { return &noted[T]{err, note} }

// Of returns the outermost note of type T at err, and whether there is one.
func Of[T any](err error) (note T, found bool) {
	if e := (*noted[T])(nil); errors.As(err, &e) {
		return e.note, true
	}
	return note, false
}

// Is reports whether note is the outermost of its type at err. Of joined errors
// one is enough.
func Is[T comparable](err error, note T) bool {
	switch e := err.(type) { //nolint:errorlint // takes it apart itself, because it stops at the outermost note
	case *noted[T]:
		return e.note == note
	case interface{ Unwrap() error }:
		return Is(e.Unwrap(), note)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return Is(err, note) })
	}
	return false
}
