// Package ran marks errors by whether the guarded function ran.
//
// A refusal that a function returns, of a key inside it, looks like a refusal
// of the key around it. The mark tells them apart, and changes neither the
// text nor what errors.Is and errors.As find.
package ran

// Error is the error of a function that ran.
type Error struct{ err error }

// Mark marks err, which must not be nil, as the error of a function that ran.
func Mark(err error) error { return &Error{err} }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the error as the function returned it.
func (e *Error) Unwrap() error { return e.err }

// Refusal is the error of a verb whose function did not run. Marks inside it
// do not count: they belong to the work whose end ended the wait.
type Refusal struct{ err error }

// Refuse makes a Refusal of err, which must not be nil.
func Refuse(err error) error { return &Refusal{err} }

func (r *Refusal) Error() string { return r.err.Error() }

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.err }

// Marked reports whether err carries a mark. Of joined errors one is enough.
func Marked(err error) bool {
	switch e := err.(type) { //nolint:errorlint // takes it apart itself
	case *Error:
		return true
	case *Refusal:
		return false
	case interface{ Unwrap() error }:
		return Marked(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if Marked(one) {
				return true
			}
		}
	}
	return false
}
