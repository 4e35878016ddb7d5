package turns

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// A schedule says when a grant is renewed. The grant's mutex guards it.
type schedule struct {
	renewAt  time.Time     // zero: never
	renewing chan struct{} // closed when the renewal is answered
	revoked  bool          // the key may have been released by force since the last renewal
	fault    error         // of the renewals since the last that succeeded, see moreTelling
}

// renewSoon makes the first renewal of an offer due early, because the lease is
// shorter than its TTL until then and a pause may cost it. A turn that ends
// before that costs no renewal. The grant is not shared yet.
func (gr *grant) renewSoon(now time.Time) {
	// WithoutRenewal allows the one renewal that brings the full TTL.
	if !gr.bid.terms.noRenewal || gr.trust.length < gr.bid.terms.ttl {
		gr.renewAt = now.Add(limits.OfferRenewal)
	}
}

// arm sets the timer to whatever is due next. gr.mu is held.
func (gr *grant) arm(now time.Time) {
	next, at := gr.trust.left(now), gr.tenure.due()
	if gr.members != nil {
		at = gr.members.lookAt
	}
	if !at.IsZero() {
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

// stopTimer keeps tick from firing again. gr.mu is held.
func (gr *grant) stopTimer() {
	if gr.timer != nil {
		gr.timer.Stop()
	}
}

// tick does what is due. It runs in the timer's goroutine. due sets the timer
// again before act, which may take long, so that nothing delays the deadline.
func (gr *grant) tick() {
	if act := gr.due(time.Now()); act != nil {
		defer gr.gate.engine.errands.end()
		act()
	}
}

// due hands a renewal that is due to the renewer. If something else is due, it
// returns that as act, an errand for the caller to run without gr.mu.
func (gr *grant) due(now time.Time) (act func()) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	defer func() {
		if act != nil {
			gr.gate.engine.errands.begin()
		}
	}()
	switch {
	case gr.cause != nil:
		return nil // ended while the timer fired
	case gr.trust.left(now) <= 0:
		cause := gr.overdue(now)
		return func() { gr.lose(cause) }
	}
	event, t := gr.tenure.next(now)
	if gr.members != nil {
		event, t = gr.members.next(now)
	}
	switch {
	case event == maxHoldDue && gr.members != nil:
		act = func() { gr.expel(t) }
	case event == maxHoldDue:
		cause := overLong(t.set.MaxHold)
		return func() { gr.lose(cause) }
	case event == cooldownDue:
		act = t.cooledDown
	case event == halfDue:
		if t.occupant != nil {
			act = t.occupant.HalfTime
		}
	case !gr.renewAt.IsZero() && gr.renewing == nil && !now.Before(gr.renewAt):
		gr.renewing = make(chan struct{})
		gr.gate.engine.renewer.add(gr, limits.Renew(gr.bid.terms.ttl), now.Add(gr.trust.left(now)))
	}
	gr.arm(now)
	return act
}

// doubt makes a renewal due now, because the key may have been released by
// force. The renewal tells whether the grant is still held.
func (gr *grant) doubt() {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.revoked = true
	if gr.cause == nil && gr.renewing == nil {
		gr.renewAt = time.Now()
		gr.arm(gr.renewAt)
	}
}

// renewed takes the answer to a renewal that was sent at the given time. It
// does not block, because other answers wait behind it.
func (gr *grant) renewed(sent time.Time, err error) Renewal {
	r, lost := gr.noteRenewal(sent, err)
	if !lost {
		return r
	}
	cause := gr.taken(err)
	if told := gr.markLost(cause); len(told) > 0 {
		errands := &gr.gate.engine.errands
		errands.begin()
		go func() { // an errand, because an observer may be slow; ends with it
			defer errands.end()
			for _, o := range told {
				o.Lost(cause)
			}
		}()
	}
	return r
}

// noteRenewal is renewed without the end of a grant that is lost.
func (gr *grant) noteRenewal(sent time.Time, err error) (r Renewal, lost bool) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	left := gr.trust.left(now)
	r = Renewal{Err: err, Left: left, Late: left < limits.Trusted(gr.trust.length)/2}
	close(gr.renewing)
	gr.renewing = nil
	if gr.cause != nil {
		return r, false
	}
	switch {
	case err == nil:
		gr.trust = gr.trust.renewed(trustFrom(sent, gr.bid.terms.ttl))
		gr.renewAt, gr.revoked, gr.fault = time.Time{}, false, nil
		if !gr.bid.terms.noRenewal {
			gr.renewAt = limits.RenewalTime(sent, gr.trust.length)
		}
	case errors.Is(err, locker.ErrLeaseLost):
		return r, true
	default: // the deadline decides; until then try again
		gr.renewAt, gr.fault = now.Add(rand.N(gr.trust.length/20)+time.Millisecond), moreTelling(gr.fault, err)
	}
	gr.arm(now)
	return r, false
}

// tellRenewal reports the result of a renewal to the events of the current
// turn. Between turns it reports to the events of the turn that acquired the
// grant.
func (gr *grant) tellRenewal(r Renewal) {
	events, o := gr.events, Occupant(nil)
	gr.mu.Lock()
	if t := gr.someone(); t != nil && t.occupant != nil {
		events, o = t.events, t.occupant
	}
	gr.mu.Unlock()
	events.Renewed(o, gr.gate.key, r)
	ctx := context.Background() //nolint:forbidigo // a batch belongs to no caller
	gr.gate.engine.tell(ctx, events, o, gr.gate, r.Err)
}
