package guard

import (
	"errors"

	"github.com/go-lockguard/guard/internal/ran"
)

// Ran reports whether the function ran of the verb that returned err: Do,
// DoAll, Call, Wrap, TryDo or Lead. After an error that Is ErrNotAcquired or
// ErrUnavailable it tells a refusal of this verb, after which nothing has
// happened, from an error of the function, which may have refused a key inside
// it when half of its work was done. Only the former may be repeated blindly.
//
//	if err := g.Do(ctx, key, pay); errors.Is(err, guard.ErrNotAcquired) && !guard.Ran(err) {
//		// try again later: pay has done nothing
//	}
//
// It is true for nil and for every error that is none of the guard's. An error
// stays marked when it is wrapped with %w or joined. Ran does not block and is
// safe for concurrent use.
func Ran(err error) bool { return !isRefusal(err) || ran.Marked(err) }

// isRefusal reports whether err could be taken for that of a verb whose
// function did not run. The end of a context alone is no refusal: a verb that
// it ends returns ErrNotAcquired too.
func isRefusal(err error) bool {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// refusals are what verbs return without running their function. ErrLeaseLost
// is the refusal of a call inside a lease that is lost.
var refusals = []error{
	ErrNotAcquired, ErrUnavailable, ErrClosed, ErrLeaseLost, ErrInvalidKey, ErrInvalidOption, ErrNoDefault,
}

// afterRun returns what a verb makes of the error of a function that ran.
func afterRun(err error) error {
	if err == nil || !isRefusal(err) {
		return err
	}
	return ran.Mark(err)
}
