package turns

import (
	"errors"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockorder"
	"github.com/go-lockguard/guard/locker"
)

// A grant is what this process holds of a key: an owner id in the store, and a
// time until which it may be trusted. Calls take turns on it. It ends by
// finish, when its tenure is over, or by lose, when it cannot be trusted any
// longer. After either nobody gets another turn on it.
//
// Invariant: once cause is set, it does not change, the timer is stopped and no
// renewal begins. timer is nil before the first turn. renewing is set exactly
// while a renewal is due or in flight. renewal waits in the renewer for a part
// of that time. If members is set, no turn is in the tenure, there is no cooldown and
// there are no tokens.
type grant struct {
	gate   *gate
	events Events // of the turn that acquired it, for what happens between turns
	// bid has won. bid.unclear is written before the grant is shared, and by
	// its release.
	bid *bid

	// mu guards what follows. It is held for a few instructions, never across
	// I/O or a callback.
	mu     lockorder.Grant
	trust  trust
	tenure tenure
	tokens tokens
	schedule
	timer *time.Timer // fires when trust ends, a renewal is due, or something in the tenure is
	cause error       // why it ended; nil while it has not

	members *members // of a shared grant; nil: it is not shared

	renewal renewal // the renewer's, guarded by its mutex
}

// newGrant returns the grant that b has won for t, now. It has a lease of the
// given length, counted from when its request was sent, and a block of fencing
// tokens or 0.
func newGrant(t *Turn, b *bid, sent time.Time, length time.Duration, token uint64, now time.Time) *grant {
	gr := &grant{
		gate: t.gate, events: t.events, bid: b,
		trust: trustFrom(sent, length), tenure: newTenure(now), tokens: tokens{block: token, turn: 1},
	}
	if !b.terms.noRenewal {
		gr.renewAt = limits.RenewalTime(sent, length)
	}
	if b.terms.limit == locker.NoLimit {
		gr.members = &members{}
	}
	return gr
}

// begin starts t's turn. It returns false if too little of the grant is left.
func (gr *grant) begin(t *Turn, now time.Time) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.cause != nil || !gr.trust.enough(now) {
		return false
	}
	if gr.members != nil {
		gr.beginMember(t, now)
		return true
	}
	t.grant, t.number = gr, gr.tenure.begin(t, t.set.MaxHold, now)
	gr.arm(now)
	return true
}

// attach makes o the occupant of t since began. It returns why the grant has
// been lost, or nil.
func (gr *grant) attach(t *Turn, o Occupant, began time.Time) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t.occupant, t.began = o, began
	cause := gr.causeOf(t)
	if errors.Is(cause, errFinished) {
		return nil
	}
	return cause
}

// causeOf returns why t cannot go on, as far as it was told; or nil. t has
// begun and was not ended. gr.mu is held.
func (gr *grant) causeOf(t *Turn) error {
	if gr.cause == nil && gr.members != nil && !t.inLine { // expelled
		return overLong(t.set.MaxHold)
	}
	return gr.cause
}

// endTurn ends t's turn. It returns why the grant was lost in it, or nil.
// cools reports that its cooldown begins. may says whether that is allowed.
func (gr *grant) endTurn(t *Turn, may bool) (cools bool, cause error) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.tenure.end(t) && may {
		cools = gr.cool(t)
	}
	return cools, gr.cause
}

// mayGoOn reports whether there may be another turn now.
func (gr *grant) mayGoOn() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	return gr.cause == nil && gr.tenure.open(now) && gr.trust.enough(now)
}

// shorten lets the tenure end after the turns of the calls that wait now.
func (gr *grant) shorten(waiting int) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.tenure.shorten(waiting)
}

// err returns why t cannot be trusted, or nil.
func (gr *grant) err(t *Turn) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.errLocked(t)
}

// errLocked is err. gr.mu is held.
func (gr *grant) errLocked(t *Turn) error {
	switch {
	case !gr.isOn(t):
		return locker.ErrLeaseLost
	case gr.cause != nil:
		return gr.cause
	}
	// The timer has yet to fire, or the machine slept.
	if now := time.Now(); gr.trust.left(now) <= 0 {
		return gr.overdue(now)
	}
	return nil
}

// endedBy returns when a grant that is found lost now ended at the latest. The
// process may have slept past its deadline.
func (gr *grant) endedBy(now time.Time) time.Time {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return now.Add(min(gr.trust.left(now), 0))
}

// deadline returns until when the grant is trusted.
func (gr *grant) deadline() time.Time {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.trust.mono
}

// heldBy returns what the store shows of the grant: its holder, and the time
// left unless it is renewed.
func (gr *grant) heldBy(now time.Time) (locker.Holder, time.Duration) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.bid.claim.Holder, max(0, gr.trust.expiry().Sub(now))
}

// heldSince reports whether the current turn began before the given time.
func (gr *grant) heldSince(since time.Time) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t := gr.tenure.turn
	return t != nil && t.occupant != nil && !t.began.After(since)
}

// current returns the turns that are on.
func (gr *grant) current() []*Turn {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.everyone()
}
