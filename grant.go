package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard/internal/lockorder"
	"github.com/go-lockguard/guard/locker"
)

// A grant is what this process holds of a key: an owner id in the store, and how long it may be trusted. Calls take
// turns on it. It ends by finish, when its tenure is over, or by lose, when it cannot be trusted any longer; after
// either nobody gets another turn on it.
type grant struct {
	family *family
	config *config // of the guard that acquired it, for observers and logs
	gate   *gate
	claim  *locker.Claim
	terms  terms

	unclear bool // a request of the claim may still be under way; written before the grant is shared, and by its release

	mu       lockorder.Grant // guards what follows; held for a few instructions, never across I/O or a callback
	trust    trust
	length   time.Duration // of the lease: the TTL, or before the first renewal of an offer, the offer's
	tenure   tenure
	renewAt  time.Time     // zero: never
	timer    *time.Timer   // fires at the next of trust's end, renewAt and what is due in the turn; stopped when the grant ends
	renewing chan struct{} // closed when the renewal that is due or in flight is answered; nil: none is
	cause    error         // why it ended; nil while it has not
	tokens   tokens

	renewal renewal // the renewer's, guarded by its mutex
}

var errFinished = errors.New("guard: the grant was released")

// newGrant is what b has won for g: a lease of the given length, counted from when its request was sent, and a block of
// fencing tokens or 0.
func newGrant(g *Guard, gt *gate, b *bid, sent time.Time, length time.Duration, token uint64) *grant {
	gr := &grant{
		family: g.family, config: &g.config, gate: gt, claim: &b.claim, terms: b.terms,
		unclear: b.unclear, trust: trustFrom(sent, length), length: length, tenure: newTenure(time.Now()),
		tokens: tokens{block: token, turn: 1},
	}
	if !gr.terms.noRenewal {
		gr.renewAt = renewalTime(sent, length)
	}
	return gr
}

// renewSoon makes the first renewal of an offer due early: until then a pause may cost a lease that is shorter than its
// TTL. A turn that ends before that costs no renewal. The grant is not shared yet.
func (gr *grant) renewSoon(now time.Time) {
	if !gr.terms.noRenewal || gr.length < gr.terms.ttl { // the one renewal that brings the TTL
		gr.renewAt = now.Add(offerRenewal)
	}
}

// begin starts t's turn, if enough of the grant is left for one.
func (gr *grant) begin(t *turn) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	if gr.cause != nil || gr.trust.left(now) < minRemaining(gr.length) {
		return false
	}
	t.grant, t.number = gr, gr.tenure.begin(t, t.guard.maxHold, now)
	gr.arm(now)
	return true
}

// attach makes l the lease that is told when t's grant is lost, or returns why it has been.
func (gr *grant) attach(t *turn, l *Lease) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t.lease = l
	return gr.cause
}

// endTurn ends t's turn and returns why the grant was lost in it, or nil, and whether the key stays taken for a while.
func (gr *grant) endTurn(t *turn) (kept bool, cause error) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.tenure.end(t) {
		kept = gr.keep(t)
	}
	return kept, gr.cause
}

// mayGoOn reports whether the tenure allows another turn now.
func (gr *grant) mayGoOn() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	return gr.cause == nil && gr.tenure.open(now) && gr.trust.left(now) >= minRemaining(gr.length)
}

// shorten lets the tenure end after the turns of those who wait now.
func (gr *grant) shorten(waiting int) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.tenure.shorten(waiting)
}

// arm sets the timer to whatever is due next; gr.mu is held.
func (gr *grant) arm(now time.Time) {
	next := gr.trust.left(now)
	if at := gr.tenure.due(); !at.IsZero() {
		next = min(next, at.Sub(now))
	}
	if !gr.renewAt.IsZero() && gr.renewing == nil {
		next = min(next, gr.renewAt.Sub(now))
	}
	if gr.timer == nil {
		gr.timer = time.AfterFunc(next, gr.tick)
	} else {
		gr.timer.Reset(next)
	}
}

// tick does what is due. It runs in the timer's goroutine, and the timer is set again before anything that may take long, so
// that nothing delays the deadline.
func (gr *grant) tick() {
	if act := gr.due(time.Now()); act != nil {
		defer gr.family.errands.end()
		act()
	}
}

// due hands a renewal that is due to the renewer, or returns what else there is to do, without gr.mu: an errand.
func (gr *grant) due(now time.Time) (act func()) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	defer func() {
		if act != nil {
			gr.family.errands.begin()
		}
	}()
	switch {
	case gr.cause != nil:
		return nil // ended while the timer fired
	case gr.trust.left(now) <= 0:
		return func() { gr.lose(ErrLeaseLost) }
	}
	switch event, t := gr.tenure.next(now); {
	case event == maxHoldDue:
		cause := fmt.Errorf("%w: %v", ErrMaxHold, t.guard.maxHold)
		return func() { gr.lose(cause) }
	case event == keepDue:
		act = t.endKept
	case event == halfDue:
		if t.lease != nil {
			act = t.lease.tellHalf
		}
	case !gr.renewAt.IsZero() && gr.renewing == nil && !now.Before(gr.renewAt):
		gr.renewing = make(chan struct{})
		gr.family.renewer.add(gr, renewLimit(gr.length), now.Add(gr.trust.left(now)))
	}
	gr.arm(now)
	return act
}

// renewed takes the answer to a renewal that was sent at the given time, and returns how it went.
func (gr *grant) renewed(sent time.Time, err error) RenewResult {
	r, lost := gr.noteRenewal(sent, err)
	if lost {
		if l := gr.end(err); l != nil {
			gr.family.errands.begin()
			go func() { // not here: observers may be slow, and other answers wait; ends with them, and Close waits
				defer gr.family.errands.end()
				l.lost(err)
			}()
		}
	}
	return r
}

func (gr *grant) noteRenewal(sent time.Time, err error) (r RenewResult, lost bool) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	left := gr.trust.left(now)
	r = RenewResult{Err: err, Left: left, Late: left < trusted(gr.length)/2}
	close(gr.renewing)
	gr.renewing = nil
	if gr.cause != nil {
		return r, false
	}
	switch {
	case err == nil:
		gr.trust, gr.length = gr.trust.later(trustFrom(sent, gr.terms.ttl)), gr.terms.ttl
		gr.renewAt = time.Time{}
		if !gr.terms.noRenewal {
			gr.renewAt = renewalTime(sent, gr.length)
		}
	case errors.Is(err, ErrLeaseLost):
		return r, true
	default: // the deadline decides, until then try again
		gr.renewAt = now.Add(rand.N(gr.length/20) + time.Millisecond)
	}
	gr.arm(now)
	return r, false
}

// lose ends a grant that cannot be trusted any longer: the turn's context ends with cause, and the floor goes on, for
// the function may not notice for long. What is left in the store is freed when the function has returned.
func (gr *grant) lose(cause error) {
	if l := gr.end(cause); l != nil {
		l.lost(cause)
	}
}

// end is lose but for the lease, if there is one to be told.
func (gr *grant) end(cause error) (l *Lease) {
	gr.mu.Lock()
	if gr.cause != nil {
		gr.mu.Unlock()
		return nil
	}
	gr.cause = cause
	gr.stopTimer()
	if gr.tenure.turn != nil {
		l = gr.tenure.turn.lease // nil: attach will say so
	}
	kept := gr.tenure.unkeep()
	gr.mu.Unlock()

	gr.gate.revoke(gr)
	if kept != nil {
		gr.family.gates.leave(gr.gate)
	}
	return l
}

// discard ends a grant that nobody will use, or use any longer, and leaves its release to the locker (law 3).
func (gr *grant) discard() {
	gr.finish()
	gr.family.locker.Abandon(gr.claim, gr.unclear)
}

// finish ends a grant whose tenure is over, and reports whether it was still good.
func (gr *grant) finish() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	good := gr.cause == nil
	if good {
		gr.cause = errFinished
	}
	gr.stopTimer()
	return good
}

// join waits for a renewal in flight, so that after it nothing of ours but the release is on its way to the store. It
// reports false if ctx ends first. The grant has ended, so no other renewal begins.
func (gr *grant) join(ctx context.Context) bool {
	gr.mu.Lock()
	renewing := gr.renewing
	gr.mu.Unlock()
	if renewing == nil || gr.family.renewer.forget(gr) {
		return true
	}
	select {
	case <-renewing:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopTimer keeps tick from firing again; gr.mu is held.
func (gr *grant) stopTimer() {
	if gr.timer != nil {
		gr.timer.Stop()
	}
}

// err returns why t cannot be trusted, or nil.
func (gr *grant) err(t *turn) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.errLocked(t)
}

func (gr *grant) errLocked(t *turn) error {
	switch {
	case gr.tenure.turn != t:
		return ErrLeaseLost
	case gr.cause != nil:
		return gr.cause
	case gr.trust.left(time.Now()) <= 0:
		return ErrLeaseLost // the timer has yet to fire, or the machine slept
	}
	return nil
}

// endedBy returns when a grant that is found lost now ended at the latest: the process may have slept past its deadline.
func (gr *grant) endedBy(now time.Time) time.Time {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return now.Add(min(gr.trust.left(now), 0))
}

// deadline is until when the grant is trusted.
func (gr *grant) deadline() time.Time {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.trust.mono
}

// expiry is about when the store drops the key unless it is renewed.
func (gr *grant) expiry() time.Time {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.trust.mono.Add(gr.length - trusted(gr.length))
}
