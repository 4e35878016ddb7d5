package errnote

import "github.com/go-lockguard/guard/locker"

// Loss is a note of the reason for the loss of a lease, for metrics and spans.
// The error itself tells it to people. A Loss is one of few words, so it fits a
// metric.
type Loss string

// The reasons.
const (
	Deadline Loss = "deadline" // it was not renewed before its deadline
	Taken    Loss = "taken"    // the store says that the key is not ours any more
	Forced   Loss = "forced"   // the same, after the key was released by force
	Closed   Loss = "closed"   // the guard was closed
	MaxHold  Loss = "max_hold" // the turn lasted longer than MaxHold
	Outlived Loss = "outlived" // a lease inside it was not released before it
)

// Losses returns all reasons.
func Losses() []Loss { return []Loss{Deadline, Taken, Forced, Closed, MaxHold, Outlived} }

// LossOf returns the reason that is noted at err. Without one it returns Taken,
// because only a store loses a lease without a reason.
func LossOf(err error) Loss {
	if reason, found := Of[Loss](err); found {
		return reason
	}
	return Taken
}

// ErrMaxHold is the locker.ErrLeaseLost of a turn that lasted longer than
// MaxHold.
var ErrMaxHold error = maxHoldError("guard: held longer than the limit that WithMaxHold sets")

type maxHoldError string

func (e maxHoldError) Error() string        { return string(e) }
func (e maxHoldError) Is(target error) bool { return target == locker.ErrLeaseLost }
