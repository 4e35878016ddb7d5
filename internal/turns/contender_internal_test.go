package turns

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// An act is one step of a contender: an answer of the store or a message.
type act func(c *contender, now time.Time)

var (
	contenderBackoff = Backoff{Initial: 5 * time.Millisecond, Max: 250 * time.Millisecond}
	errStore         = locker.ErrUnavailable
)

func opened(c *contender, _ time.Time) {
	c.openBid(&bid{claim: locker.Claim{Owner: "mine", TTL: time.Second}})
}

func sent(c *contender, now time.Time) { c.beginTry(c.bid, true, now) }

func queued(c *contender, now time.Time) {
	c.tryHeld(locker.Answer{Queued: true, Place: 7, Remaining: time.Second}, now, now, contenderBackoff)
}

func notQueued(c *contender, now time.Time) {
	c.tryHeld(locker.Answer{Remaining: time.Second}, now, now, contenderBackoff)
}

func noAnswer(c *contender, now time.Time) {
	c.tryUnanswered(false, false, errStore, now, contenderBackoff)
}

func perhapsQueued(c *contender, now time.Time) {
	c.tryUnanswered(true, false, errStore, now, contenderBackoff)
}

func unsent(c *contender, now time.Time) { c.tryUnsent(false, errStore, now, contenderBackoff, 0) }

func offer(c *contender, _ time.Time) { c.granted("mine", locker.Offer{Length: time.Second}) }

func strange(c *contender, _ time.Time) { c.granted("strange", locker.Offer{Length: time.Second}) }

func woken(c *contender, now time.Time) { c.wake(now) }

func won(c *contender, _ time.Time) { c.tryWon("mine") }

// The state of a contender after a row of answers and messages, and its next
// action.
func TestAContenderKnowsItsBidAndItsNextAct(t *testing.T) {
	for name, c := range map[string]struct {
		acts           []act
		bid            bool // there is one
		queued, pauses bool
		offered        bool
		place          locker.Place
		knows          bool // a message for the owner id is not a stranger's
	}{
		"a fresh bid is tried at once": {acts: []act{opened}, bid: true, knows: true},
		"a queued bid waits for its message": {
			acts: []act{opened, sent, queued}, bid: true, queued: true,
			pauses: true, place: 7, knows: true,
		},
		"a store that cannot queue is asked again": {
			acts: []act{opened, sent, notQueued}, bid: true,
			pauses: true, knows: true,
		},
		"a bid that has left the queue is over":  {acts: []act{opened, sent, queued, sent, notQueued}, place: 7},
		"a bid that may be in the queue is over": {acts: []act{opened, sent, perhapsQueued}, pauses: true},
		"a lost answer keeps the bid": {
			acts: []act{opened, sent, noAnswer}, bid: true,
			pauses: true, knows: true,
		},
		"a try that was not sent keeps a bid in the queue": {
			acts: []act{opened, sent, queued, sent, unsent}, bid: true, queued: true,
			pauses: true, place: 7, knows: true,
		},
		"a try that was not sent keeps a bid out of it": {
			acts: []act{opened, sent, unsent}, bid: true,
			pauses: true, knows: true,
		},
		"a hand-over ends the pause": {
			acts: []act{opened, sent, queued, offer}, bid: true,
			queued: true, offered: true, place: 7, knows: true,
		},
		"a hand-over during a try counts": {
			acts: []act{opened, sent, offer, queued}, bid: true,
			queued: true, offered: true, place: 7, knows: true,
		},
		"a hand-over keeps a bid without an answer": {
			acts: []act{opened, sent, offer, perhapsQueued}, bid: true,
			queued: true, offered: true, knows: true,
		},
		"a hand-over to a stranger is none": {
			acts: []act{opened, sent, queued, strange}, bid: true,
			queued: true, pauses: true, place: 7, knows: true,
		},
		"a wake-up ends the pause": {
			acts: []act{opened, sent, queued, woken}, bid: true,
			queued: true, place: 7, knows: true,
		},
		"a wake-up during a try brings another": {
			acts: []act{opened, sent, woken, queued}, bid: true,
			queued: true, place: 7, knows: true,
		},
		"a grant ends the bid, but is known": {acts: []act{opened, sent, queued, offer, won}, knows: true},
		"a new bid inherits the place of one before": {
			acts: []act{opened, sent, queued, sent, notQueued, opened},
			bid:  true, place: 7, knows: true,
		},
	} {
		now := time.Now()
		var co contender
		for _, a := range c.acts {
			a(&co, now)
		}
		next := co.next(now, terms{})
		left, offered := next.left, next.do == toTake
		if got := co.bid != nil; got != c.bid || got && co.bid.queued != c.queued {
			t.Errorf("%s: the bid is %+v, want one: %t, queued: %t", name, co.bid, c.bid, c.queued)
		}
		if left > 0 != c.pauses || offered != c.offered {
			t.Errorf("%s: it pauses for %v, offered: %t, want a pause: %t, offered: %t", name, left,
				offered, c.pauses, c.offered)
		}
		if co.place != c.place {
			t.Errorf("%s: its place is %d, want %d", name, co.place, c.place)
		}
		if co.granted("mine", locker.Offer{}) != c.knows {
			t.Errorf("%s: it knows its owner id: %t, want %t", name, !c.knows, c.knows)
		}
		if co.seen != (sighting{}) && co.fault != nil {
			t.Errorf("%s: it has both seen a holder and had no answer", name)
		}
	}
}

func TestABidOnOtherTermsIsOver(t *testing.T) {
	c := &contender{}
	opened(c, time.Now())
	old := c.bid
	if a := c.next(time.Now(), old.terms); a.bid != old || a.over != nil {
		t.Errorf("on the same terms: %v to go on with and %v to give up", a.bid, a.over)
	}
	if a := c.next(time.Now(), terms{fencing: true}); a.bid != nil || a.over != old || c.bid != nil {
		t.Errorf("on other terms: %v to go on with and %v to give up, with %v kept", a.bid, a.over, c.bid)
	}
}

// A turn that is passed on has the terms of its grant.
func TestAGrantServesWhoAsksForNoMore(t *testing.T) {
	has := terms{ttl: time.Second, fencing: true, limit: 3, recall: true}
	for name, c := range map[string]struct {
		asks   terms
		serves bool
	}{
		"the same":         {has, true},
		"no tokens":        {terms{ttl: time.Second, limit: 3, recall: true}, true},
		"no record":        {terms{ttl: time.Second, fencing: true, limit: 3}, true},
		"a longer TTL":     {terms{ttl: time.Minute, fencing: true, limit: 3, recall: true}, false},
		"a shorter TTL":    {terms{ttl: time.Millisecond, fencing: true, limit: 3, recall: true}, false},
		"no renewal":       {terms{ttl: time.Second, noRenewal: true, fencing: true, limit: 3, recall: true}, false},
		"to be alone":      {terms{ttl: time.Second, fencing: true, recall: true}, false},
		"another number":   {terms{ttl: time.Second, fencing: true, limit: 4, recall: true}, false},
		"less, and longer": {terms{ttl: time.Minute, limit: 3}, false},
	} {
		if has.serve(c.asks) != c.serves {
			t.Errorf("%s: serves is %t, want %t", name, !c.serves, c.serves)
		}
	}
	for name, has := range map[string]terms{
		"tokens":   {ttl: time.Second, limit: 3, recall: true},
		"a record": {ttl: time.Second, fencing: true, limit: 3},
	} {
		if has.serve(terms{ttl: time.Second, fencing: true, limit: 3, recall: true}) {
			t.Errorf("a grant without %s serves who asks for them", name)
		}
	}
}

func TestTriesThatWereNotSentAreSpread(t *testing.T) {
	var c contender
	now := time.Now()
	opened(&c, now)
	var least, most time.Duration = time.Hour, 0
	for range 1000 {
		sent(&c, now)
		c.tryUnsent(false, errStore, now, contenderBackoff, time.Second)
		left := c.next(now, terms{}).left
		least, most = min(least, left), max(most, left)
	}
	if least > 250*time.Millisecond || most < 800*time.Millisecond || most > 1250*time.Millisecond {
		t.Errorf("pauses of %v to %v, want up to 1 s and the backoff", least, most)
	}
}

// A look at a key that may be free, or whose lease ends, comes no later than
// that, however long the claim might rest.
func TestALookDoesNotMissTheEndOfALease(t *testing.T) {
	for remaining, longest := range map[time.Duration]time.Duration{
		time.Second: time.Second, 0: contenderBackoff.Max, time.Hour: locker.MaxRest,
	} {
		var c contender
		now := time.Now()
		opened(&c, now)
		sent(&c, now)
		c.tryHeld(locker.Answer{Queued: true, Remaining: remaining, Rest: locker.MaxRest}, now, now, contenderBackoff)
		if left := c.next(now, terms{}).left; left <= 0 || left > longest {
			t.Errorf("%v left of the lease: the next look comes after %v, want up to %v", remaining, left, longest)
		}
	}
}

// A caller that leaves after tries that were not sent leaves nothing to clean up
// (law 8).
func TestATryThatWasNotSentLeavesNothingToCleanUp(t *testing.T) {
	var c contender
	now := time.Now()
	opened(&c, now)
	for range 3 {
		sent(&c, now)
		unsent(&c, now)
	}
	if b := c.withdraw(); b.queued || b.unclear {
		t.Errorf("the bid may be in the queue: %t, or under way: %t", b.queued, b.unclear)
	}
	opened(&c, now)
	sent(&c, now)
	noAnswer(&c, now)
	if b := c.withdraw(); !b.unclear {
		t.Error("a try without an answer is not cleaned up")
	}
}

// An offer counts from the last answered request that saw the bid in the queue
// (law 1), and is taken once.
func TestAnOfferCountsFromTheLastLook(t *testing.T) {
	var c contender
	first := time.Now()
	later := first.Add(time.Second)
	opened(&c, first)
	sent(&c, first)
	queued(&c, first)
	sent(&c, later)
	queued(&c, later)
	sent(&c, later.Add(time.Second))
	offer(&c, later.Add(time.Second))
	noAnswer(&c, later.Add(time.Second))
	a := c.next(later, terms{})
	if a.do != toTake || a.bid != c.bid || !a.since.Equal(later) {
		t.Errorf("does %d for %p since %v, want to take that of %p since %v", a.do, a.bid, a.since, c.bid, later)
	}
	if again := c.next(later, terms{}); again.do == toTake {
		t.Error("took it twice")
	}
}

// A release that queues the next call's bid, and the effect of each answer on
// the bid.
func TestAReleaseQueuesTheNextBid(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		answer          locker.Released
		granted         bool // while the release was under way
		queued, pauses  bool
		offered, isBusy bool
	}{
		"handed, and queued": {
			answer: locker.Released{Handed: true, Queued: true, Place: 3}, queued: true,
			pauses: true, isBusy: true,
		},
		"the key is free":           {},
		"granted before the answer": {granted: true, queued: true, offered: true},
		"handed, granted already again": {
			answer: locker.Released{Handed: true, Queued: true}, granted: true,
			queued: true, offered: true, isBusy: true,
		},
	} {
		var co contender
		next := &bid{claim: locker.Claim{Owner: "mine", TTL: time.Second}}
		co.beginQueuing(next)
		if c.granted {
			offer(&co, now)
		}
		co.released(c.answer, next, now, now, contenderBackoff)
		a := co.next(now, terms{})
		left, offered := a.left, a.do == toTake
		if next.queued != c.queued || left > 0 != c.pauses || offered != c.offered || now.Before(co.busy) != c.isBusy {
			t.Errorf("%s: queued: %t, pauses for %v, offered: %t, busy until %v", name, next.queued,
				left, offered, co.busy)
		}
	}
	var co contender
	next := &bid{}
	co.beginQueuing(next)
	if co.cancelQueuing(next) != next || !next.unclear || co.bid != nil || co.cancelQueuing(next) != nil {
		t.Error("the bid of a release without an answer is not taken back once")
	}
}

// The whole machine: the state after each event in each state.
func TestAnAlarmKnowsWhatIsNext(t *testing.T) {
	later := time.Now().Add(time.Hour)
	names := [...]string{due: "due", trying: "trying", rewoken: "rewoken", asleep: "asleep", offered: "offered"}
	o := locker.Offer{Token: 7, Waiting: 3}
	events := map[string]func(*alarm){
		"begin": (*alarm).begin,
		"sleep": func(a *alarm) { a.sleep(later) },
		"wake":  func(a *alarm) { a.wake(later) },
		"grant": func(a *alarm) { a.grant(o) },
		"take":  func(a *alarm) { a.take() },
	}
	for _, c := range []struct {
		from                            alarmState
		begin, sleep, wake, grant, take alarmState
	}{
		{from: due, begin: trying, sleep: asleep, wake: due, grant: offered, take: due},
		{from: trying, begin: trying, sleep: asleep, wake: rewoken, grant: offered, take: trying},
		{from: rewoken, begin: trying, sleep: asleep, wake: rewoken, grant: offered, take: rewoken},
		{from: asleep, begin: trying, sleep: asleep, wake: asleep, grant: offered, take: asleep},
		{from: offered, begin: offered, sleep: offered, wake: offered, grant: offered, take: due},
	} {
		want := map[string]alarmState{
			"begin": c.begin, "sleep": c.sleep, "wake": c.wake,
			"grant": c.grant, "take": c.take,
		}
		for name, event := range events {
			a := alarm{state: c.from}
			event(&a)
			if a.state != want[name] {
				t.Errorf("%s in state %s leads to %s, want %s", name, names[c.from], names[a.state], names[want[name]])
			}
		}
	}
}

func TestAnAlarmGoesOffInTime(t *testing.T) {
	now := time.Now()
	var a alarm
	if d := a.left(now); d > 0 {
		t.Errorf("a fresh one waits %v", d)
	}
	a.begin()
	a.sleep(now.Add(time.Second))
	if d := a.left(now); d != time.Second {
		t.Errorf("%v are left, want 1s", d)
	}
	a.wake(now.Add(2 * time.Second))
	if d := a.left(now); d != time.Second {
		t.Errorf("%v are left after a wake-up for later, want 1s", d)
	}
	a.wake(now)
	if d := a.left(now); d > 0 {
		t.Errorf("%v are left after a wake-up", d)
	}
}

// A try that was sent before a wake-up is not the one that the wake-up is for,
// and one that begins after it is.
func TestAWakeUpIsOneTryThatBeginsAfterIt(t *testing.T) {
	now := time.Now()
	var a alarm
	a.begin()
	a.wake(now.Add(time.Second))
	a.wake(now.Add(2 * time.Second))
	a.sleep(now.Add(time.Hour))
	if d := a.left(now); d != time.Second {
		t.Errorf("%v are left after the try that was under way, want 1s", d)
	}
	a.begin()
	a.sleep(now.Add(time.Hour))
	if d := a.left(now); d != time.Hour {
		t.Errorf("%v are left after the try, want 1h", d)
	}
}

func TestAnOfferIsTakenOnce(t *testing.T) {
	var a alarm
	a.begin()
	a.grant(locker.Offer{Token: 7, Waiting: 3})
	a.sleep(time.Now().Add(time.Hour)) // the try that was under way saw the key held
	if o, ok := a.take(); !ok || o != (locker.Offer{Token: 7, Waiting: 3}) {
		t.Errorf("took %v, %t", o, ok)
	}
	if o, ok := a.take(); ok {
		t.Errorf("took %v again", o)
	}
}
