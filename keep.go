package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// KeepOn says after which results of the function [WithMinHold] keeps the key.
type KeepOn uint8

// OnSuccess keeps the key only after a function that returned nil, or on a route
// a response with a status below 400. After an error, a panic or the loss of the
// lease the key is free at once, so that the same work can be tried again. A
// lease from Acquire or TryAcquire has no result: its release counts as success.
const OnSuccess KeepOn = 1

// WithMinHold keeps the key taken until d after it was acquired, also if the
// function returns sooner, with whatever result, or with [OnSuccess] only after
// success. It is for jobs that instances start by clocks that differ, and for
// double clicks.
//
// Verbs return without waiting for that, and the function's context ends as
// always; meanwhile every other call has to wait, in this process too, and the lease is renewed as
// needed, so d may be longer than the TTL. A call that runs inside a lease on the same key goes by the outer one's setting.
// At least 1 ms; 0 is none, the default.
//
// [Guard.Close] does not wait for it either. Then, after a crash, and while the store cannot be reached, the key is left to
// its TTL, which may be sooner or later: choose a TTL of at least d for a process that ends with its job.
func WithMinHold(d time.Duration, on ...KeepOn) Option {
	return optionFunc(func(c *config) error {
		if err := checkDuration("MinHold", d); err != nil {
			return err
		}
		for _, o := range on {
			if o != OnSuccess {
				return fmt.Errorf("%w: MinHold with KeepOn %d, want OnSuccess", ErrInvalidOption, o)
			}
		}
		c.minHold, c.keepIfDone = d, len(on) > 0
		return nil
	})
}

// What follows keeps a key: its turn has ended, and has the floor all the same until it is time to go on as after any turn.

// keepEnd is until when the key of t stays taken. The grant's mutex is held.
func (t *turn) keepEnd() time.Time { return t.lease.hold.began.Add(t.guard.minHold) }

// keep keeps gr for t, which has just ended, if it is too early to give it back. gr.mu is held.
func (gr *grant) keep(t *turn) bool {
	if t.guard.minHold == 0 || t.unused || t.lease == nil || gr.cause != nil {
		return false
	}
	if t.guard.keepIfDone && t.lease.failed.Load() {
		return false
	}
	now := time.Now()
	if !now.Before(t.keepEnd()) {
		return false
	}
	gr.tenure.keep(t, t.keepEnd())
	gr.family.gates.linger(gr.gate) // until endKept or lose
	gr.arm(now)
	return true
}

// kept is how long the key that t goes without stays taken because of
// WithMinHold alone, or 0. It is exact for a turn of this process, and no less
// than the truth for another one that does the same work.
func (t *turn) kept(now time.Time) time.Duration {
	if gr := t.gate.holding(); gr != nil {
		return gr.keptFor(now)
	}
	return t.guard.keptElsewhere(t.gate.holder(now).Holder, now)
}

// keptFor is how long the turn on gr will keep the key at least.
func (gr *grant) keptFor(now time.Time) time.Duration {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t := gr.tenure.turn
	if gr.tenure.kept != nil {
		t = gr.tenure.kept
	}
	switch {
	case t == nil:
		return 0
	case t.lease == nil: // the turn has just begun
		return t.guard.minHold
	}
	return max(0, t.keepEnd().Sub(now))
}

// keptElsewhere is how long h keeps the key at most, if it goes by the same
// settings, as its name says. It told when it began to wait, not when it
// acquired the key: that was at most our MaxWait later.
func (c *config) keptElsewhere(h Holder, now time.Time) time.Duration {
	if c.minHold == 0 || h.Since.IsZero() || h.Name != c.name {
		return 0
	}
	left := c.minHold + c.maxWait - now.Sub(h.Since)
	return min(max(0, left), c.minHold)
}

// endKept goes on as after any turn, now that the key of t has been kept for long enough. It runs in a goroutine of the
// grant's timer.
func (t *turn) endKept() {
	f := t.guard.family
	if !f.enter() { // closed: the key is left to its TTL
		t.grant.lose(errClosedUnder)
		f.gates.leave(t.gate)
		return
	}
	defer t.leave()
	if t.gate.handOff(t, t.grant, time.Now()) {
		return
	}
	err := t.giveBack(f.limits.Within(t.ctx, releaseLimit(t.guard.ttl)))
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		t.guard.logRelease(t.lease.hold.ctx, t.gate.key, err)
	}
}

// letGo ends the grants that are kept when no call is left, and leaves their keys to the TTL.
func (f *family) letGo(ctx context.Context) {
	for _, gt := range f.gates.all() {
		if gr := gt.holding(); gr != nil {
			gr.lose(errClosedUnder)
			gr.join(ctx)
		}
	}
}
