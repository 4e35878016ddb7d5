package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
)

// An outcome is a value of guard.outcome, see the package comment. It is also
// the index into the attribute sets of a series.
type outcome int

const (
	acquired outcome = iota
	reentered
	replayed
	joined
	timeout
	queueFull
	canceled
	unavailable
	unguarded
	closed
	lost
	outerReleased
	otherError

	released
	recorded
	notRecorded
	maxHold
	panicked

	renewed

	outcomes // the number of outcomes
)

// waitOutcomes is the number of outcomes of a wait, which come first.
const waitOutcomes = otherError + 1

var outcomeNames = [outcomes]string{
	acquired:      "acquired",
	reentered:     "reentered",
	replayed:      "replayed",
	joined:        "joined",
	timeout:       "timeout",
	queueFull:     "queue_full",
	canceled:      "canceled",
	unavailable:   "unavailable",
	unguarded:     "unguarded",
	closed:        "closed",
	lost:          "lost",
	outerReleased: "outer_released",
	otherError:    "error",
	released:      "released",
	recorded:      "recorded",
	notRecorded:   "not_recorded",
	maxHold:       "max_hold",
	panicked:      "panicked",
	renewed:       "renewed",
}

func (o outcome) String() string { return outcomeNames[o] }

func waitOutcome(w guard.WaitInfo, r guard.WaitResult) outcome {
	err := r.Err
	switch {
	case r.Unguarded:
		return unguarded
	case r.Replayed:
		return replayed
	case r.Joined:
		return joined
	case err == nil && w.Reentry:
		return reentered
	case err == nil:
		return acquired
	case errors.Is(err, guard.ErrQueueFull):
		return queueFull
	case errors.Is(err, guard.ErrNotAcquired): // first, because its cause may be any of the others
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return canceled
		}
		return timeout
	case errors.Is(err, guard.ErrUnavailable):
		return unavailable
	case errors.Is(err, guard.ErrLeaseLost):
		return lost
	case errors.Is(err, guard.ErrClosed):
		return closed
	case errors.Is(err, guard.ErrNoLease):
		return outerReleased
	}
	return otherError
}

func (o outcome) failedWait() bool {
	return o == unavailable || o == unguarded || o == lost || o == otherError
}

// lossOutcome is the outcome of a lease that was lost for the given reason.
func lossOutcome(r errnote.Loss) outcome {
	switch r {
	case errnote.MaxHold:
		return maxHold
	case errnote.Closed:
		return closed
	}
	return lost
}

// lossReason returns why a lease was lost with err. An error without a reason
// comes from a direct call of the observer, as in a test.
func lossReason(err error) errnote.Loss {
	switch {
	case errors.Is(err, guard.ErrMaxHold):
		return errnote.MaxHold
	case errors.Is(err, guard.ErrClosed):
		return errnote.Closed
	}
	return errnote.LossOf(err)
}

func holdOutcome(r guard.HoldResult) outcome {
	switch {
	case errors.Is(r.Err, guard.ErrLeaseLost): // before Panicked, because it says more
		return lossOutcome(lossReason(r.Err))
	case r.Panicked:
		return panicked
	case errors.Is(r.Err, guard.ErrNotRecorded):
		return notRecorded
	case r.Err != nil:
		return unavailable
	case r.Recorded:
		return recorded
	}
	return released
}

func (o outcome) failedHold() bool { return o != released && o != recorded }

func renewOutcome(err error) outcome {
	switch {
	case err == nil:
		return renewed
	case errors.Is(err, guard.ErrLeaseLost):
		return lost
	}
	return unavailable
}

// errorType is the error.type of an operation that failed with err. It comes
// from err itself, or from a short list of names.
func errorType(o outcome, err error) attribute.KeyValue {
	var typed interface{ ErrorType() string }
	if errors.As(err, &typed) {
		return semconv.ErrorType(err)
	}
	return semconv.ErrorTypeKey.String(o.String())
}
