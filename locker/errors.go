package locker

import "errors"

// What a store answers when it cannot do what it was asked. They are the
// guard's own errors of the same names, to be wrapped with detail, and never
// with a key.
var (
	// ErrLeaseLost says that a claim does not own its key: another does, or
	// nobody.
	ErrLeaseLost = errors.New("guard: lease lost")

	// ErrUnavailable says that the store gave no clear answer: what was asked
	// may have been done, or may yet be.
	ErrUnavailable = errors.New("guard: locker unavailable")

	// ErrInvalidOption says that a setting of the locker is not usable.
	ErrInvalidOption = errors.New("guard: invalid option")

	// ErrClosed says that the locker was closed.
	ErrClosed = errors.New("guard: closed")
)
