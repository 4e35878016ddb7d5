package locker

import "errors"

// Errors of a store that cannot do what it was asked. They are the guard's own
// errors of the same names. A store wraps them with detail, but never with a
// key.
var (
	// ErrLeaseLost says that a claim does not own its key. The owner is another
	// claim, or nobody.
	ErrLeaseLost = errors.New("guard: lease lost")

	// ErrUnavailable says that the store gave no clear answer. The request may
	// have been carried out, or may yet be.
	ErrUnavailable = errors.New("guard: locker unavailable")

	// ErrUnsent comes with ErrUnavailable if the store cannot have seen the
	// request, so that the claim stands where it stood before. The guard goes
	// on with the claim, and has nothing to clean up.
	ErrUnsent = errors.New("not sent")

	// ErrSilent comes with the ErrUnavailable of an Acquire if the store was
	// asked and gave no answer at all: nobody listens, or nothing came in time.
	// It does not come with an answer of the store, whatever that says, with a
	// connection that somebody has broken, or if something in this process was
	// full.
	//
	// The guard believes it only while this process is awake. So it ignores the
	// silence of an Acquire that took much longer than its limit. If the error
	// is a timeout, whose method Timeout returns true, it also ignores one that
	// took less.
	//
	// While all tries end so, the guard asks less. Functions may run unguarded
	// then, see guard.WithFailOpen. A store that never says ErrSilent has
	// neither.
	ErrSilent = errors.New("no answer")

	// ErrInvalidOption says that a setting of the locker is not usable.
	ErrInvalidOption = errors.New("guard: invalid option")

	// ErrClosed says that the locker was closed.
	ErrClosed = errors.New("guard: closed")
)
