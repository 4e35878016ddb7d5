package guard

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

// How a gate contends: the steps of its bid and its alarm. The turn that has the floor calls them, between its requests
// to the store; wake, granted and want come from the locker at any time.

// bidFor returns the bid to go on with for a call on the given terms, or nil if there must be a new one. A bid on other
// terms is returned to be given up.
func (gt *gate) bidFor(terms terms) (b, other *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.bid != nil && gt.bid.terms != terms {
		return nil, gt.dropBid()
	}
	return gt.bid, nil
}

// open makes b the bid of the gate.
func (gt *gate) open(b *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.bid, gt.alarm = b, alarm{}
}

// dropBid ends the bid and what was granted to it; gt.mu is held.
func (gt *gate) dropBid() *bid {
	b := gt.bid
	gt.bid, gt.alarm = nil, alarm{}
	return b
}

// pause returns how long the contender must wait before it acts, whether that is to take an offer, and what ends the
// pause early.
func (gt *gate) pause(now time.Time) (left time.Duration, offer bool, poke <-chan struct{}) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	left = gt.alarm.left(now)
	if left > 0 && gt.poke == nil {
		gt.poke = make(chan struct{}, 1)
	}
	return left, gt.alarm.state == offered, gt.poke
}

// signal ends the contender's pause; gt.mu is held.
func (gt *gate) signal() {
	select {
	case gt.poke <- struct{}{}: // nil if nobody ever paused
	default: // one is there already
	}
}

// take returns the offer that has come for the bid, and from when it may be trusted: from the last answered request that
// saw the bid in the queue (law 1).
func (gt *gate) take() (b *bid, o locker.Offer, since time.Time, ok bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	o, ok = gt.alarm.take()
	if ok {
		b, since = gt.bid, gt.bid.seen
		gt.wanted = o.Waiting > 0
	}
	return b, o, since, ok
}

// beginTry notes that a try is sent, and says how it goes about it.
func (gt *gate) beginTry(wait bool, now time.Time) locker.Try {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.alarm.begin()
	return locker.Try{
		Wait: wait, Held: wait && now.Before(gt.busy), Queued: gt.bid.queued, Place: gt.place,
	}
}

// beginRelease notes that the floor gives its grant back, and who is first in line to want the key again.
func (gt *gate) beginRelease(gr *grant) (next *turn) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.grant == gr {
		gt.grant = nil
	}
	return gt.line.first
}

// beginQueuing makes b the bid that the release puts into the queue: from now on it may be granted.
func (gt *gate) beginQueuing(b *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.bid, gt.alarm = b, alarm{}
	gt.bid.queued = true
	gt.alarm.begin()
}

// held notes that a try, sent at the given time, has found the key held. It returns a bid that is over: it was in the
// queue and is no more, so it was granted and came too late, and must not be queued again (law 2).
func (gt *gate) held(a locker.Answer, sent time.Time, b backoff) (over *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	now := time.Now()
	gt.seen, gt.fault = sighting{a.Holder, a.Remaining, now}, nil
	if a.Place != 0 {
		gt.place = a.Place
	}
	if gt.bid.queued && !a.Queued {
		return gt.dropBid() // the next is due at once
	}
	pause := b.pause(gt.tries)
	if a.Queued {
		if a.Remaining <= 0 {
			a.Rest = 0 // the key may be free at any time
		}
		gt.bid.queued, gt.bid.seen = true, sent
		pause = b.look(gt.bid.claim.ShortOffer(), a.Rest)
	}
	if a.Remaining > 0 {
		pause = min(pause, a.Remaining)
	}
	gt.tries++
	gt.alarm.rest(now.Add(pause))
	return nil
}

// unclear notes that a try got no answer. It returns a bid that is over, for it may be in the queue by now or later, and
// would not know since when (law 12): unless it was granted meanwhile.
func (gt *gate) unclear(queued bool, fault error, b backoff) (over *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.fault, gt.seen = fault, sighting{}
	gt.bid.unclear = true
	gt.bid.queued = gt.bid.queued || queued
	pause := b.pause(gt.tries)
	gt.tries++
	if queued && gt.alarm.state != offered {
		over = gt.dropBid()
	}
	gt.alarm.rest(time.Now().Add(pause))
	return over
}

// released notes how a release went that was sent at the given time, and returns whether the gate should linger, for the
// next call of this process to know that another one holds the key.
func (gt *gate) released(r locker.Released, next *bid, sent time.Time, b backoff) (linger bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	now := time.Now()
	gt.wanted = r.Waiting > 0
	if r.Handed {
		gt.busy = now.Add(lingers)
	}
	if next == nil || gt.bid != next {
		return r.Handed
	}
	if !r.Queued && gt.alarm.state != offered { // the key is free
		next.queued = false
		gt.alarm = alarm{}
		return false
	}
	next.seen, gt.place = sent, r.Place
	gt.alarm.rest(now.Add(b.look(next.claim.ShortOffer(), 0)))
	return false
}

// lingers is how long another process is believed to hold a key that was handed to it, and a gate kept to remember that.
const lingers = 20 * time.Millisecond

// cancelQueuing takes back the bid of a release that was not answered, to be given up.
func (gt *gate) cancelQueuing(next *bid) *bid {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if next == nil || gt.bid != next {
		return nil
	}
	next.unclear = true
	return gt.dropBid()
}

// granted notes that the key was handed over to owner, and reports whether that is anybody here (laws 3 and 4): the bid, whether
// its turn pauses, tries or is just leaving, or a grant that a look has found before the message came.
func (gt *gate) granted(owner string, o locker.Offer) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.bid != nil && gt.bid.claim.Owner == owner {
		gt.alarm.grant(o)
		gt.signal()
		return true
	}
	return gt.last == owner
}

// wake ends the contender's pause.
func (gt *gate) wake() {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.busy = time.Time{}
	if gt.floor != nil && gt.grant == nil {
		gt.alarm.wake()
		gt.signal()
	}
}

// want notes that other processes wait for the key: a tenure ends after one pass over those in line now (law 9).
func (gt *gate) want() {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if !gt.wanted && gt.grant != nil {
		gt.grant.shorten(gt.line.length)
	}
	gt.wanted = true
}
