package turns

import (
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// A contender is how a gate contends for its key. The contender has the bid,
// the alarm that says when to act next, and what is known of other processes.
// The turn that has the floor drives it between its requests to the store.
// granted and wake come from the locker at any time.
//
// It is a value without I/O. The gate's mutex guards it, and its methods are
// called with that mutex held.
//
// Invariant: bid is nil before the first try and once the key is won. Without a
// bid the alarm is due, or asleep after a try that got no answer, see
// tryUnanswered. seen and fault are never both set.
type contender struct {
	bid   *bid
	place locker.Place   // in the store's queue; the next bid inherits it
	alarm alarm          // when to act next
	poke  lockerkit.Bell // ends a pause early; made by the first pause
	spent bool           // the bid has left the store's queue for good, because of a record
	tries int            // tries in a row that got nowhere
	last  string         // owner id of the latest grant, whose message may come late
	busy  time.Time      // until then another process is likely to hold the key
	seen  sighting       // the holder that the last try saw
	fault error          // ErrUnavailable, if the last try got no answer
}

// sighting is the holder of a key at one moment.
type sighting struct {
	holder    locker.Holder
	remaining time.Duration
	at        time.Time     // zero: nobody was seen
	took      time.Duration // to see it; 0: not known
}

// looks returns how long a look that begins now is likely to take, or 0 if that
// is not known. An old sighting does not tell, and the claim must be seen
// again.
func (s sighting) looks(now time.Time) time.Duration {
	if now.Sub(s.at) >= locker.LookEvery {
		return 0
	}
	return limits.Likely(s.took)
}

// left returns how long the holder's lease lasts from now unless it is renewed.
func (s sighting) left(now time.Time) time.Duration { return max(0, s.remaining-now.Sub(s.at)) }

// openBid makes b the bid.
func (c *contender) openBid(b *bid) { c.bid, c.alarm, c.spent = b, alarm{}, false }

// dropBid ends the bid, with the offer that it may have. dropBid returns the
// bid for the caller to give up.
func (c *contender) dropBid() *bid {
	b := c.bid
	if c.spent && b != nil {
		b.queued = false
	}
	c.bid, c.alarm, c.spent = nil, alarm{}, false
	return b
}

// withdraw ends the bid and its place in the queue. withdraw returns the bid
// for the caller to give up (law 3).
func (c *contender) withdraw() *bid {
	c.place = 0
	return c.dropBid()
}

// queued reports whether the bid waits in the store's queue, as far as is
// known.
func (c *contender) queued() bool { return c.bid != nil && c.bid.queued && !c.spent }

// tryWon ends the bid as owner's grant.
func (c *contender) tryWon(owner string) {
	c.dropBid()
	c.last = owner
	c.place, c.tries, c.seen, c.fault = 0, 0, sighting{}, nil
}

// An action is what the turn on the floor does next for the contender.
type action struct {
	do    actionKind
	over  *bid            // a bid on other terms, which the caller must give up
	left  time.Duration   // toPause: how long
	poke  <-chan struct{} // ends a pause early
	looks time.Duration   // toTry: how long the answer is likely to take; 0: not known
	bid   *bid            // to go on with; nil: toTry needs a new one
	offer locker.Offer    // toTake
	since time.Time       // toTake: the offer may be trusted from then on
	took  time.Duration   // toTake: how long the last answer took, see bid
}

type actionKind int

const (
	toPause actionKind = iota
	toTake             // the offer
	toTry
)

// next returns what the turn on the floor, which asks for these terms, does
// next. An offer is taken by that, and a bid on other terms is over. The offer
// may be trusted since the last answered request was sent that saw the bid in
// the queue (law 1).
func (c *contender) next(now time.Time, terms terms) (a action) {
	if c.bid != nil && c.bid.terms != terms {
		a.over = c.dropBid()
	}
	a.bid = c.bid
	if o, ok := c.alarm.take(); ok {
		a.do, a.offer, a.since, a.took = toTake, o, c.bid.seen, c.bid.took
		a.bid.wanted = a.bid.wanted || o.Waiting > 0
		return a
	}
	if a.left = c.alarm.left(now); a.left <= 0 {
		a.do = toTry
	}
	// A turn may pause though a try is due, see waiter.nextAction.
	if c.poke == nil && (a.left > 0 || c.seen.took > 0) {
		c.poke = make(lockerkit.Bell, 1)
	}
	a.poke, a.looks = c.poke, c.seen.looks(now)
	return a
}

// beginTry records that a try for b is sent. beginTry returns the form of the
// try.
func (c *contender) beginTry(b *bid, wait bool, now time.Time) locker.Try {
	if c.bid != b {
		c.openBid(b)
	}
	c.alarm.begin()
	return locker.Try{
		Wait: wait, Held: wait && now.Before(c.busy), Queued: b.queued, Place: c.place,
	}
}

// tryHeld records that a try, sent at the given time, found the key held.
//
// tryHeld returns a bid to give up, or nil. A bid that was in the queue and is
// not there any more was granted too late, and must not be queued again
// (law 2).
func (c *contender) tryHeld(a locker.Answer, sent, now time.Time, b Backoff) (over *bid) {
	c.seen, c.fault = sighting{a.Holder, a.Remaining, now, now.Sub(sent)}, nil
	if a.Place != 0 {
		c.place = a.Place
	}
	if c.bid.queued && !a.Queued {
		return c.dropBid() // the next is due at once
	}
	pause := b.Pause(c.tries)
	if a.Queued {
		if a.Remaining <= 0 {
			a.Rest = 0 // the key may be free at any time
		}
		c.bid.queued, c.bid.seen, c.bid.took = true, sent, now.Sub(sent)
		pause = b.look(c.bid.claim.ShortOffer(), a.Rest)
	}
	if a.Remaining > 0 {
		pause = min(pause, a.Remaining)
	}
	c.tries++
	c.alarm.sleep(now.Add(pause))
	return nil
}

// tryBusy records that a try without a place in the queue found the key
// held. The next one is due at once, and looks first.
func (c *contender) tryBusy(a locker.Answer, now time.Time) {
	c.seen, c.fault = sighting{a.Holder, a.Remaining, now, 0}, nil
	c.busy = now.Add(limits.Busy)
	c.alarm.sleep(now)
}

// tryUnanswered records that a try got no answer. If the try may have queued
// the bid, the bid is returned to be given up. Nobody can say since when it
// has been in the queue (law 8). A bid granted meanwhile is kept. cut says
// that the try had less than its full limit.
func (c *contender) tryUnanswered(queued, cut bool, fault error, now time.Time, b Backoff) (over *bid) {
	c.bid.unclear = true
	c.bid.queued = c.bid.queued || queued
	if queued && c.alarm.state != offered {
		over = c.dropBid()
	}
	c.failed(fault, cut, now, b.Pause(c.tries))
	return over
}

// tryUnsent records that a try was not sent. The bid stands where it stood
// before (law 8). spread is the time over which all that wait spread their
// next tries, because too many wait to be sent.
func (c *contender) tryUnsent(cut bool, fault error, now time.Time, b Backoff, spread time.Duration) {
	c.failed(fault, cut, now, b.Pause(c.tries)+limits.Jitter(spread+1))
}

// failed records a try that has told nothing. The next one is due after pause.
// A try that was cut short does not put what was seen before in doubt.
func (c *contender) failed(fault error, cut bool, now time.Time, pause time.Duration) {
	if !cut || c.seen.at.IsZero() {
		c.fault, c.seen = fault, sighting{}
	}
	c.tries++
	c.alarm.sleep(now.Add(pause))
}

// beginQueuing makes b the bid that a release puts into the queue. From now on
// it may be granted.
func (c *contender) beginQueuing(b *bid) {
	c.openBid(b)
	b.queued = true
	c.alarm.begin()
}

// cancelQueuing takes back the bid of a release without an answer.
// cancelQueuing returns the bid to be given up, or nil if that is not the bid
// any more.
func (c *contender) cancelQueuing(next *bid) *bid {
	if next == nil || c.bid != next {
		return nil
	}
	next.unclear = true
	return c.dropBid()
}

// released records the answer to a release that was sent at the given time.
// next is the bid that it was to queue, or nil.
func (c *contender) released(r locker.Released, next *bid, sent, now time.Time, b Backoff) {
	if r.Handed {
		c.busy = now.Add(limits.Busy)
	}
	if next == nil || c.bid != next {
		return
	}
	if !r.Queued && c.alarm.state != offered { // the key is free
		next.queued = false
		c.alarm = alarm{}
		return
	}
	next.seen, next.took, c.place = sent, now.Sub(sent), r.Place
	c.alarm.sleep(now.Add(b.look(next.claim.ShortOffer(), 0)))
}

// granted records a hand-over to owner. granted reports whether owner is known
// here (laws 3 and 4). That is the bid, or a grant that a look found before the
// message came.
func (c *contender) granted(owner string, o locker.Offer) bool {
	if c.bid != nil && c.bid.claim.Owner == owner {
		c.alarm.grant(o)
		c.poke.Ring()
		return true
	}
	return c.last == owner
}

// wake makes the next try due at the given time at the latest.
func (c *contender) wake(at time.Time) {
	c.alarm.wake(at)
	c.poke.Ring()
}

// An alarm says when the contender of a gate acts next. It is a state machine
// of five states and no I/O:
//
//	       begin           sleep           time
//	┌ due ──────► trying ────────► asleep ──────► (due)
//	│               │ wake          ▲  ▲ │ wake, to a time that is not later
//	│               ▼               │  └─┘
//	│            rewoken ── sleep ──┘
//	│ grant, from any state
//	└─────► offered ── take ──► due
//
// It is guarded by its gate's mutex.
type alarm struct {
	state alarmState
	at    time.Time    // asleep: until when; rewoken: when the other try is due
	offer locker.Offer // offered: what was granted
}

type alarmState int

const (
	due     alarmState = iota // to try now
	trying                    // a try, or a release that queues, is under way
	rewoken                   // as trying, and woken since it began: another try is due at a time of its own
	asleep                    // the next try is due later
	offered                   // the key was granted by another process
)

// begin notes that a try is sent.
func (a *alarm) begin() {
	if a.state != offered {
		a.state = trying
	}
}

// sleep notes that the try is over, and that the next is due at the given time.
// A wake-up or grant that arrived while the try was in flight takes precedence.
func (a *alarm) sleep(until time.Time) {
	switch a.state {
	case rewoken:
		a.state, a.at = asleep, earlier(a.at, until)
	case offered:
	default:
		a.state, a.at = asleep, until
	}
}

// wake notes that the key may be free, and that the next try is due at the
// given time at the latest. A try that begins earlier counts as that try. One
// that is under way does not.
func (a *alarm) wake(at time.Time) {
	switch a.state {
	case trying:
		a.state, a.at = rewoken, at
	case rewoken, asleep:
		a.at = earlier(a.at, at)
	default: // it will be looked at anyway
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// grant notes that the key was granted to the gate's claim.
func (a *alarm) grant(o locker.Offer) { a.state, a.offer = offered, o }

// take returns the offer if there is one, and leaves the alarm due.
func (a *alarm) take() (locker.Offer, bool) {
	if a.state != offered {
		return locker.Offer{}, false
	}
	o := a.offer
	*a = alarm{}
	return o, true
}

// left returns how long the contender must pause from now. left returns 0 or
// less if the contender must act.
func (a *alarm) left(now time.Time) time.Duration {
	if a.state == asleep {
		return a.at.Sub(now)
	}
	return 0
}

// A bid is what a gate contends with for the key: a claim, and its standing in
// the store. The bid belongs to the gate and not to one caller. When a caller
// leaves, the next in line goes on with the bid in the same place. Once the bid
// has won, it belongs to the grant.
//
// claim and terms never change. The gate's mutex guards the rest until the bid
// has won.
type bid struct {
	claim locker.Claim
	terms terms

	// seen is when the last answered request that saw the bid in the queue was
	// sent. No offer is older (law 1). took is how long the answer took.
	seen    time.Time
	took    time.Duration
	joins   uint32  // how many calls had joined the gate when that request was sent
	queued  bool    // it may be in the store's queue, or was granted there
	wanted  bool    // another process waits for the key of the bid, or may
	unclear bool    // a request of it may still be under way
	unmark  bool    // its end removes its mark
	recall  *Recall // its record had no answer yet, so its end keeps it; nil: none
}

// renewed returns for how long a renewal of b, which has won, is trusted. A
// late try of a claim that lingers cuts the lease down to its first length.
func (b *bid) renewed() time.Duration {
	if b.unclear {
		return b.claim.First()
	}
	return b.terms.ttl
}

// giveUp gives b up, unless it has left nothing in the store. b may be nil.
func (c *common) giveUp(b *bid) {
	if b != nil && (b.queued || b.unclear) {
		c.cleanUp(b)
	}
}

// cleanUp removes in the background all that b has left in the store, but the
// record.
func (c *common) cleanUp(b *bid) {
	end := locker.End{Unmark: b.unmark}
	if b.recall != nil {
		end.Record = b.recall.keep
	}
	c.janitor.Add(lockerkit.Cleanup{Node: c.store.Node(b.claim.Key), Claim: &b.claim, End: end, Late: b.unclear})
}

// terms are what a grant was acquired with. A turn on it is open to calls that
// ask for no more.
type terms struct {
	ttl       time.Duration
	noRenewal bool
	fencing   bool
	limit     int // see [Settings]
	// recall says that there was no record when the claim became the owner,
	// and there is none while it is the owner (law 11).
	recall bool
}

// shared reports whether any number of turns may be on the grant at once.
func (t terms) shared() bool { return t.limit == locker.NoLimit }

// crowded reports whether others may own the key beside the grant.
func (t terms) crowded() bool { return t.limit > 1 }

// serve reports whether a grant on terms t serves a call that asks for u.
func (t terms) serve(u terms) bool {
	same := t.ttl == u.ttl && t.noRenewal == u.noRenewal && t.limit == u.limit
	return same && (t.fencing || !u.fencing) && (t.recall || !u.recall)
}
