package guard

import (
	"context"
	"errors"
	"time"
)

// WithMinHold keeps the key taken until d after it was acquired, also if the function returns sooner, with whatever result:
// for jobs that instances start by clocks that differ, and for double clicks. Verbs return without waiting for that, and the
// function's context ends as always; meanwhile every other call has to wait, in this process too, and the lease is renewed as
// needed, so d may be longer than the TTL. A call that runs inside a lease on the same key goes by the outer one's setting.
// At least 1 ms; 0 is none, the default.
//
// [Guard.Close] does not wait for it either. Then, after a crash, and while the store cannot be reached, the key is left to
// its TTL, which may be sooner or later: choose a TTL of at least d for a process that ends with its job.
func WithMinHold(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if err := checkDuration("MinHold", d); err != nil {
			return err
		}
		c.minHold = d
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
	now := time.Now()
	if !now.Before(t.keepEnd()) {
		return false
	}
	gr.kept = t
	gr.family.gates.linger(gr.gate) // until endKept or lose
	gr.arm(now)
	return true
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
