package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// Observer is told about waits, holds and renewals. Package tracing turns that
// into OpenTelemetry spans and metrics.
//
// Its methods run in the caller's goroutine, with these exceptions:
//
//   - Renewed runs in a goroutine of the guard's.
//   - LeaseLost runs in one of the guard's, or in that of the call that finds
//     or makes the loss, such as FencingToken, Release or Close.
//   - Traceparent of a call that waits may run where the key is released: in
//     the goroutine of another call, or in one of the guard's, such as after a
//     cooldown or for an idle key.
//
// The methods must be fast. They are never called under a lock and must be safe
// for concurrent use. A panic of a method passes through to the caller in whose
// goroutine it runs. In a goroutine of the guard's it ends the process, as a
// panic of a logger does. Embed [NopObserver] to implement only some of the
// methods.
//
// An observer that is a [NameObserver] too hears of guards before their first
// call. One that is an [IdleObserver] can ask for idle keys.
type Observer interface {
	// WaitStart is called before a verb looks for its key. The context that it
	// returns is used for the wait.
	WaitStart(ctx context.Context, w WaitInfo) context.Context
	// WaitEnd is called with that context when the wait has ended, with a lease
	// (Err is nil) or without.
	WaitEnd(ctx context.Context, w WaitInfo, r WaitResult)
	// HoldStart is called with the caller's context once the caller has a
	// lease. fn runs under the context that HoldStart returns.
	HoldStart(ctx context.Context, w WaitInfo) context.Context
	// LeaseLost is called once, with HoldStart's context, at the moment in
	// which the lease is lost. It is called about each lease whose
	// HoldResult.Err Is ErrLeaseLost. The function may run on. When it has
	// returned, HoldEnd may overtake the call of LeaseLost.
	LeaseLost(ctx context.Context, w WaitInfo, err error)
	// HoldEnd is called with that context when the lease has ended.
	HoldEnd(ctx context.Context, w WaitInfo, r HoldResult)
	// Renewed is called after each try to renew a lease. It gets HoldStart's
	// context, or another one between two turns.
	Renewed(ctx context.Context, w WaitInfo, r RenewResult)
	// Traceparent returns the W3C traceparent to store with a key or a result,
	// or "". Waiters use it to link to their holder. Calls that get the result
	// link to the call that made it.
	Traceparent(ctx context.Context) string
}

// NameObserver is an optional part of an [Observer]. It learns the names of
// guards when they are made. So its counters can begin with 0.
type NameObserver interface {
	// New and each With call GuardNamed with the name of the guard that they
	// return. A name that several guards have is told more than once. A guard
	// that was derived from a nil one is not told of before its first call.
	GuardNamed(name string)
}

// IdleObserver is an optional part of an [Observer]. It can ask how many keys
// are idle, see [WithLinger].
type IdleObserver interface {
	// New and each With call ObserveIdle with the keys of the family of the
	// guard that they return. A family may be told more than once. A guard that
	// was derived from a nil one is not told of.
	ObserveIdle(family IdleKeys)
}

// IdleKeys are the idle keys of a family of guards. Two of them are equal if
// the family is the same.
type IdleKeys interface {
	// Idle returns how many keys are idle now, by the names of the guards that
	// took them. open is false once the guard is closed. Idle asks nobody but
	// this process, and is safe for concurrent use. It costs nothing before
	// the first call under [WithLinger].
	Idle() (keys map[string]int, open bool)
}

// WaitInfo says which call this is about.
type WaitInfo struct {
	Name    string // of the guard, see WithName: low cardinality, fit for metrics
	Key     string // not fit for metrics; fit for traces only by decision
	Reentry bool   // the call runs inside a lease that its ctx already carries
	Try     bool   // the call makes one attempt and does not wait
	Mode    string // "shared" or "permits", see WithShared and WithPermits; "" is exclusive
	Permits int    // how many leases may have the key at once, in the mode "permits"; else 0
	// MaxHold is the limit of the hold, see WithMaxHold. 0 is none, as in Lead.
	MaxHold time.Duration
}

// WaitResult says how a wait ended.
type WaitResult struct {
	Waited   time.Duration
	Err      error // nil: acquired
	Attempts int   // tries sent to the locker by this call
	Handoff  bool  // the turn came from another call of this process, without a round trip
	// Idle says that the key was idle in this process, see [WithLinger]. No
	// other call handed it over, though Handoff is true too.
	Idle    bool
	Blocker Holder // the last holder seen in the way, here or elsewhere; zero if none was
	// Unguarded says that the function runs all the same, because the store is
	// silent, see [WithFailOpen]. Err is the ErrUnavailable that another guard
	// would return. There is no hold.
	Unguarded bool
	// Replayed and Joined say that the call of [Once] got the result of another
	// call, and has no turn and no hold. Err is nil. Joined had to wait for
	// that result.
	Replayed, Joined bool
	// Origin is what Traceparent returned in the hold of that other call. It is
	// "" if it was no traceparent of version 00.
	Origin string
}

// HoldResult says how a hold ended.
type HoldResult struct {
	Held time.Duration
	// Err is nil after a release. Otherwise it is ErrLeaseLost, ErrMaxHold or
	// ErrClosed, or ErrUnavailable for a release without an answer. It Is
	// ErrNotRecorded too if the release was to keep a result of [Once].
	Err      error
	Recorded bool          // the release has kept a result of Once
	Panicked bool          // fn panicked, or called runtime.Goexit
	Overrun  time.Duration // time from the loss of the lease to the end; 0 if it was not lost before
}

// RenewResult says how a try to renew a lease went.
type RenewResult struct {
	Err  error         // nil, ErrLeaseLost or ErrUnavailable
	Left time.Duration // how long the lease could still be trusted when the answer came
	// Late says that a try failed, or the answer was slow: Left was less than
	// half of what a fresh lease has. After a hand-over, and of a key that
	// lingers, it was less than half of what was left when the try was due.
	Late bool
}

// NopObserver is an [Observer] that does nothing. Embed it.
type NopObserver struct{}

// WaitStart returns ctx.
func (NopObserver) WaitStart(ctx context.Context, _ WaitInfo) context.Context { return ctx }

// WaitEnd does nothing.
func (NopObserver) WaitEnd(context.Context, WaitInfo, WaitResult) {}

// HoldStart returns ctx.
func (NopObserver) HoldStart(ctx context.Context, _ WaitInfo) context.Context { return ctx }

// HoldEnd does nothing.
func (NopObserver) HoldEnd(context.Context, WaitInfo, HoldResult) {}

// LeaseLost does nothing.
func (NopObserver) LeaseLost(context.Context, WaitInfo, error) {}

// Renewed does nothing.
func (NopObserver) Renewed(context.Context, WaitInfo, RenewResult) {}

// Traceparent returns "".
func (NopObserver) Traceparent(context.Context) string { return "" }

// observers are told in the order in which they were added.
type observers []Observer

// traceparent returns the first traceparent that an observer has for ctx, or
// "".
func (all observers) traceparent(ctx context.Context) string {
	for _, o := range all {
		if t := o.Traceparent(ctx); t != "" {
			return t
		}
	}
	return ""
}

// A hold is a lease as observers see it. Lease.open writes every field but told,
// before another goroutine can see the lease.
type hold struct {
	info  WaitInfo
	began time.Time
	ctx   context.Context // the observers'
	told  atomic.Bool     // of its loss
}
