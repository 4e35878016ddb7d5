package turns

import (
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The turn that has the floor calls these methods before and after its requests
// to the store. Each method takes the gate's mutex for one step of the gate's
// contender.

// bidFor is [contender.bidFor].
func (gt *gate) bidFor(terms terms) (b, other *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.contender.bidFor(terms)
}

// openBid is [contender.openBid].
func (gt *gate) openBid(b *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.contender.openBid(b)
}

// untilDue is [contender.untilDue].
func (gt *gate) untilDue(now time.Time) (left time.Duration, offer bool, poke <-chan struct{}) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.contender.untilDue(now)
}

// looksInTime reports whether a look that begins now is likely to be answered
// within d. Where nobody was seen, it may be.
func (gt *gate) looksInTime(d time.Duration) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.contender.seen.timely(time.Now(), d)
}

// takeOffer is [contender.takeOffer]. The offer also tells whether others wait.
func (gt *gate) takeOffer() (b *bid, o locker.Offer, since time.Time, ok bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	b, o, since, ok = gt.contender.takeOffer()
	if ok {
		gt.wanted = o.Waiting > 0
	}
	return b, o, since, ok
}

// beginTry is [contender.beginTry]. It also returns how many calls have joined
// the gate by now, see [gate.answer].
func (gt *gate) beginTry(wait bool, now time.Time) (how locker.Try, joins uint32) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	how = gt.contender.beginTry(wait, now)
	if !how.Queued {
		gt.contender.bid.joins = gt.joins // if a record takes it out of the queue, that is later
	}
	return how, gt.joins
}

// tryWon records that the bid has become gr, which the floor holds from now on.
// A turn that need not be alone holds it without the floor.
func (gt *gate) tryWon(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.contender.tryWon(gr.bid.claim.Owner)
	if gt.wanted {
		gr.shorten(gt.line.length)
	}
	if gr.crowded() {
		gt.disperse(gr)
		return
	}
	gt.grant = gr
}

// tryHeld is [contender.tryHeld]. joins is what beginTry has returned.
func (gt *gate) tryHeld(a locker.Answer, sent time.Time, joins uint32, b Backoff) (over *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if over = gt.contender.tryHeld(a, sent, time.Now(), b); over == nil && a.Queued {
		gt.contender.bid.joins = joins
	}
	return over
}

// tryBusy is [contender.tryBusy].
func (gt *gate) tryBusy(a locker.Answer, now time.Time) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.contender.tryBusy(a, now)
}

// dropBid is [contender.dropBid]. It is for a claim that the store may give
// back by itself, because its owner id must not be used again (law 2).
func (gt *gate) dropBid() *bid {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.contender.dropBid()
}

// tryUnanswered is [contender.tryUnanswered].
func (gt *gate) tryUnanswered(queued, cut bool, fault error, b Backoff) (over *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.contender.tryUnanswered(queued, cut, fault, time.Now(), b)
}

// tryUnsent is [contender.tryUnsent].
func (gt *gate) tryUnsent(cut bool, fault error, b Backoff, spread time.Duration) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.contender.tryUnsent(cut, fault, time.Now(), b, spread)
}

// notAdmitted records that the floor may not try, because of fault.
func (gt *gate) notAdmitted(fault error) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.contender.fault, gt.contender.seen = fault, sighting{}
}

// beginRelease records that gr is released. If the floor releases it, the first
// in line, which wants the key again, is returned. Otherwise the call on the
// floor contends already, or nobody does.
func (gt *gate) beginRelease(gr *grant) (next *Turn) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gr.crowded() {
		return nil
	}
	if gt.grant == gr {
		gt.grant = nil
	}
	return gt.line.first
}

// beginQueuing is [contender.beginQueuing].
func (gt *gate) beginQueuing(b *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.contender.beginQueuing(b)
}

// cancelQueuing is [contender.cancelQueuing].
func (gt *gate) cancelQueuing(next *bid) *bid {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.contender.cancelQueuing(next)
}

// released is [contender.released]. spare reports whether to keep the gate though
// it is unused, so that the next call knows that another process has the key.
func (gt *gate) released(r locker.Released, next *bid, sent time.Time, b Backoff) (spare bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.wanted = r.Waiting > 0
	spare = r.Handed && (next == nil || gt.contender.bid != next)
	gt.contender.released(r, next, sent, time.Now(), b)
	return spare
}

// turnReturned forgets t, whose function has returned after its grant was lost.
func (gt *gate) turnReturned(t *Turn) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if i := slices.Index(gt.strays, t); i >= 0 {
		gt.strays = slices.Delete(gt.strays, i, i+1)
	}
}
