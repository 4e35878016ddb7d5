package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// These sentinels stand for the decisions that a caller may have to make.
// Errors of this package wrap them with detail, so test them with errors.Is.
//
// Test ErrLeaseLost first, because the work may have been done whatever else
// went wrong. Then test ErrUnavailable and ErrClosed. Test ErrQueueFull before
// ErrNotAcquired, because it Is both.
//
// Each of them may also be an error that the function returned, from a verb
// inside it. [Ran] tells whether the function ran. Package outcome does all
// that for answers to requests: outcome.Of gives the status, a code and when to
// try again.
var (
	// ErrNotAcquired says that the wait for a key ended without it. Another
	// holder had it, or the caller's ctx ended. In the second case the error
	// also Is ctx.Err(). The function protected by that key did not run.
	// For functions that enclose it see [Ran]. [HeldError] has detail.
	ErrNotAcquired = errors.New("guard: not acquired")

	// ErrQueueFull says that the caller was refused at once. There are too many
	// local waiters, or the expected wait is longer than MaxWait. It Is
	// ErrNotAcquired too.
	ErrQueueFull error = queueFullError("guard: queue full")

	// ErrLeaseLost says that a lease ended, or could no longer be trusted,
	// before its function returned. Another holder may have been running at the
	// same time. So the result of the function is uncertain.
	ErrLeaseLost = locker.ErrLeaseLost

	// ErrMaxHold is the ErrLeaseLost of a turn that lasted longer than MaxHold.
	ErrMaxHold = errnote.ErrMaxHold

	// ErrUnavailable says that the locker gave no usable answer. The store is
	// down or slow, or it refuses us. Once an outage has lasted for MaxWait,
	// calls get it at once.
	ErrUnavailable = locker.ErrUnavailable

	// ErrNoLease says that ctx carries no lease that is still held. Pass on the
	// ctx that the function got.
	ErrNoLease = errors.New("guard: no lease in this context")

	// ErrInvalidKey says that a key is empty, longer than 64 KiB or botched by
	// fmt. A botched key contains "%!" or "<nil>". [Key] returns the empty key
	// for parts that cannot be told apart. Give Key a value that identifies
	// what is locked.
	ErrInvalidKey = errors.New("guard: invalid key")

	// ErrInvalidOption says that an option, a locker setting or an argument is
	// not usable.
	ErrInvalidOption = locker.ErrInvalidOption

	// ErrNoDefault says that a nil *Guard was used before [SetDefault].
	ErrNoDefault = errors.New("guard: no default guard, call SetDefault first")

	// ErrClosed says that the guard was closed.
	ErrClosed = locker.ErrClosed
)

// The errors of [Once] beside those of [Guard.Do].
var (
	// ErrNotRecorded says that fn ran and had its lease to the end, and that
	// the store did not confirm the result. It comes beside the result. It may
	// yet be kept. If not, a later call runs fn again. After a failure of the
	// codec, later calls get ErrResultGone instead.
	ErrNotRecorded = errors.New("guard: the result was not recorded")

	// ErrOtherPayload says that the key has the result of a call with another
	// fingerprint. fn did not run.
	ErrOtherPayload = errors.New("guard: the key was used for another payload")

	// ErrResultGone says that fn ran in an earlier call, and that its result
	// cannot be had: it was too long, or the codec or this version cannot read
	// it. fn did not run again.
	ErrResultGone = errors.New("guard: the result is gone")
)

// ErrInterrupted says that a function began for the key under [WithAtMostOnce],
// and left no result. Its process died, its lease was lost, it panicked, or it
// returned an error. What it has done is unknown, and no function runs before
// [Guard.Forget]. fn did not run in this call.
var ErrInterrupted = errors.New("guard: an earlier call was interrupted")

var (
	errNilFunc    = invalid("the function to run is nil")
	errNilKeyFunc = invalid("the key function is nil")
	errNilContext = invalid("the ctx is nil")
)

// invalid returns an ErrInvalidOption with a text.
func invalid(text string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidOption, fmt.Sprintf(text, args...))
}

// unsupported returns the ErrInvalidOption of what a locker cannot do.
func unsupported(text string) error {
	return fmt.Errorf("%w: %w: %s", ErrInvalidOption, errors.ErrUnsupported, text)
}

type queueFullError string

func (e queueFullError) Error() string        { return string(e) }
func (e queueFullError) Is(target error) bool { return target == ErrNotAcquired }

// Holder describes the process that holds a key, as far as the store knows it.
// Its fields are Instance, Host, PID, Since, Name (of its guard) and
// Traceparent. It is for logs and operators, not for clients.
type Holder = locker.Holder

// HeldError is the ErrNotAcquired of a key that another holder had when the
// wait ended. Its text names neither the key nor the holder. So it can be shown
// to anybody.
type HeldError struct {
	Key       string
	Remaining time.Duration // until the holder's lease ends unless it is renewed; 0 if unknown
	Cooldown  time.Duration // remaining time of WithMinHold; 0 if the key is not kept, or if that is unknown
	Holder    Holder        // zero if unknown, as for a plain redislock user

	expected time.Duration
	here     bool          // a call of this process held it during the whole wait, see hintHere
	waited   time.Duration // 0: one attempt
}

// Error says how long the call waited, if it did.
func (e *HeldError) Error() string {
	const text = "guard: not acquired: the key is held by another holder"
	if e.waited == 0 {
		return text
	}
	return fmt.Sprintf("%s, after waiting %v", text, e.waited)
}

// waitedSince returns how long a call with that patience has waited. The value
// is for people to read.
func waitedSince(start time.Time, p turns.Patience) time.Duration {
	if p.Once {
		return 0
	}
	return time.Since(start).Round(time.Millisecond)
}

// Is makes a HeldError an [ErrNotAcquired].
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// RetryAfter is when trying again is likely to succeed. It comes from the
// length of the local queue and the recent pace of turns. It is never later
// than the holder's lease can end. Without a pace, as for a holder that was
// killed, it is when that lease ends (Remaining). It is 0 if nothing is known.
//
// If [WithMinHold] keeps the key, RetryAfter is never before the key is free.
// If no other call of this process waits for that, it is exactly then
// (Cooldown).
func (e *HeldError) RetryAfter() time.Duration {
	if e.expected <= 0 && e.Cooldown == 0 {
		return e.Remaining
	}
	soon := e.expected
	if e.Remaining > 0 {
		soon = min(soon, e.Remaining)
	}
	return max(soon, e.Cooldown)
}

// refusedError is an ErrQueueFull with the same estimate as HeldError.
type refusedError struct {
	reason   string
	expected time.Duration
}

func (e *refusedError) Error() string { return ErrQueueFull.Error() + ": " + e.reason }
func (e *refusedError) Unwrap() error { return ErrQueueFull }

func (e *refusedError) RetryAfter() time.Duration { return e.expected }

// refused returns the error of a verb whose wait for key ended with err. It
// translates errors of the engine into those of this package.
func refused(ctx context.Context, key string, waited time.Duration, r turns.Refusal, err error) error {
	switch {
	case errors.Is(err, turns.ErrEnded):
		return waitEnded(ctx)
	case errors.Is(err, turns.ErrHeld):
		return &HeldError{
			Key: key, Remaining: r.Remaining, Holder: r.Holder, expected: r.Expected, here: r.Here,
			Cooldown: r.Cooldown, waited: waited,
		}
	case errors.Is(err, turns.ErrFull):
		e := &refusedError{reason: "the expected wait is longer than MaxWait", expected: r.Expected}
		if r.Ahead > 0 {
			e.reason = fmt.Sprintf("%d calls wait for this key", r.Ahead)
		}
		return e
	}
	return err
}

// waitEnded is the error of a wait that ended with its ctx. It Is
// ErrNotAcquired, ctx.Err() and the cause of ctx. The cause may be the error of
// a function that ran, as under an errgroup.
func waitEnded(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return errnote.With(fmt.Errorf("%w: %w", ErrNotAcquired, cause), errnote.Ran(false))
	}
	return errnote.With(fmt.Errorf("%w: %w: %w", ErrNotAcquired, err, cause), errnote.Ran(false))
}

// Ran reports whether the verb that returned err ran its function. The verb is
// Do, DoAll, Call, Wrap, TryDo, Lead or [Once].
//
// An error that Is ErrNotAcquired or ErrUnavailable has one of two sources. It
// can be a refusal of this verb, and then nothing has happened. Or the function
// returned it, because a key inside it was refused when half of its work was
// done. Ran tells them apart. A caller may repeat the call blindly only after a
// refusal of this verb.
//
//	if err := g.Do(ctx, key, pay); errors.Is(err, guard.ErrNotAcquired) && !guard.Ran(err) {
//		// try again later: pay has done nothing
//	}
//
// After Once, Ran is true for ErrNotRecorded, and false for ErrOtherPayload,
// ErrResultGone and ErrInterrupted. Ran is true for a [FinalError], even for
// one of an earlier call, whose Err is nil. For a nil error look at Fresh of
// [OnceResult].
//
// Ran is true for nil and for every error that is not one of the guard's. An
// error stays marked when it is wrapped with %w or joined. Ran does not block
// and is safe for concurrent use.
func Ran(err error) bool { return !isRefusal(err) || errnote.Is(err, errnote.Ran(true)) }

// isRefusal reports whether err could be taken for that of a verb whose
// function did not run. The end of a context alone is no refusal. A verb that
// it ends returns ErrNotAcquired too.
func isRefusal(err error) bool {
	return slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) })
}

// refusals are the errors that verbs return without running their function.
// ErrLeaseLost is the refusal of a call inside a lease that is lost.
var refusals = []error{
	ErrNotAcquired, ErrUnavailable, ErrClosed, ErrLeaseLost, ErrInvalidKey, ErrInvalidOption, ErrNoDefault,
	ErrOtherPayload, ErrResultGone, ErrInterrupted,
}

// afterRun marks the error of a function that ran if it looks like a refusal of
// the verb. A verb returns the result.
func afterRun(err error) error {
	if err == nil || !isRefusal(err) {
		return err
	}
	return errnote.With(err, errnote.Ran(true))
}

// known returns an error of the store that a caller may test for. What the
// store says of itself alone, such as that a right is missing, is an
// ErrUnavailable.
func known(err error) error {
	if err == nil || isRefusal(err) || errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
