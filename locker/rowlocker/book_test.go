package rowlocker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// hasty is a guard that releases what it is granted before it answers.
type hasty struct {
	lockerkit.Deaf

	l *Locker
}

func (h hasty) Granted(_, owner string, _ locker.Offer) { h.l.book.forget(owner) }

func TestAGrantThatIsReleasedAtOnceIsNotLookedForAnyMore(t *testing.T) {
	l := New(noRows{})
	l.lookout.waker = hasty{l: l}
	l.book.looks(&locker.Claim{Key: "k", Owner: "o", TTL: 10 * time.Second})
	r := &row{owners: []share{{Owner: "o", Limit: 1, term: term{Ends: 2e6}}}, now: 1e6}
	l.lookout.tell("k", r, r.owners[0], time.Now())
	if keys := l.book.watched(); len(keys) > 0 {
		t.Errorf("the locker looks for %q for good, want nothing", keys)
	}
}

// counting is a guard that counts what it is granted.
type counting struct {
	hasty

	granted *int
}

func (c counting) Granted(string, string, locker.Offer) { *c.granted++ }

func TestAGrantIsToldOnce(t *testing.T) {
	l, granted := New(noRows{}), 0
	l.lookout.waker = counting{hasty{l: l}, &granted}
	l.book.looks(&locker.Claim{Key: "k", Owner: "o", TTL: 10 * time.Second})
	r := &row{owners: []share{{Owner: "o", Limit: 1, term: term{Ends: 2e6}}}, now: 1e6}
	for range 2 {
		l.lookout.tell("k", r, r.owners[0], time.Now())
	}
	if granted != 1 {
		t.Errorf("the guard hears %d times of a grant, want once", granted)
	}
}

// A call may find its grant by itself, and release the key, while the locker is
// about to tell of it.
func TestAGrantThatIsOverWhenItIsToldIsNotLookedFor(t *testing.T) {
	l, granted := New(noRows{}), 0
	l.lookout.waker = counting{hasty{l: l}, &granted}
	l.book.looks(&locker.Claim{Key: "k", Owner: "o", TTL: 10 * time.Second})
	w, _ := l.book.found("o", false, time.Time{})
	if keys := l.book.watched(); len(keys) != 1 {
		t.Errorf("the locker looks for %q, want the key that it owns", keys)
	}
	l.book.forget("o")
	l.lookout.grant(w, locker.Offer{}, time.Now())
	if keys := l.book.watched(); granted != 1 || len(keys) > 0 {
		t.Errorf("the locker looks for %q for good, want nothing", keys)
	}
}

// A call may find its grant by itself, with its whole lease, while the lookout
// is about to note the offer of that grant.
func TestTheNoteOfAGrantDoesNotShortenALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := newBook(), &locker.Claim{Key: "k", Owner: "o", TTL: time.Hour}
		offer, lease := time.Now().Add(time.Second), time.Now().Add(time.Hour)
		b.looks(c)
		b.forget(c.Owner)
		b.owns(c.Key, c.Owner, lease)
		b.found(c.Owner, false, offer)
		time.Sleep(2 * time.Second)
		if gone := b.over(); len(gone) > 0 {
			t.Errorf("%v is over with the offer, want the lease", gone)
		}

		b.looks(&locker.Claim{Key: "k2", Owner: "waits"})
		b.found("waits", false, time.Now().Add(time.Second))
		time.Sleep(2 * time.Second)
		if gone := b.over(); len(gone) != 1 {
			t.Errorf("%v is over, want the offer that nobody has renewed", gone)
		}
	})
}

// joining is a guard that notes the records which its claims find.
type joining struct {
	hasty

	found *[]string
}

func (j joining) Recorded(_, _, value string) { *j.found = append(*j.found, value) }

// The row of a key has only the head of a long record.
func TestAMessageHasTheWholeRecordOrNone(t *testing.T) {
	var found []string
	l := New(noRows{})
	l.lookout.waker = joining{hasty{l: l}, &found}
	for n, size := range []int64{3, inlineMax + 1} {
		l.book.looks(&locker.Claim{Key: "k", Owner: "o", TTL: 10 * time.Second, Recall: true})
		r := &row{record: record{Owner: "p", term: term{Ends: 2e6}, Size: size, Value: []byte("abc")}, now: 1e6}
		r.queue = []waiter{{Owner: "o"}}
		l.lookout.told("k", r, nil, time.Now())
		if len(found) > n {
			t.Errorf("told %q while the claim is in the queue", found)
		}
		r.queue = nil
		l.lookout.told("k", r, nil, time.Now())
	}
	if keys := l.book.watched(); len(keys) > 0 {
		t.Errorf("the locker looks for %q for good, want nothing", keys)
	}
	if len(found) != 2 || found[0] != "abc" || found[1] != "" {
		t.Errorf("told %q, want the short record and no other", found)
	}
}

// offered is a guard that keeps the offer that it is granted.
type offered struct {
	hasty

	offer *locker.Offer
}

func (o offered) Granted(_, _ string, offer locker.Offer) { *o.offer = offer }

// A store may tell for some time after a hand-over that the claim waits. The
// guard counts the offer from the last look that was told so (law 1).
func TestAnOfferLastsFromTheLastLookThatSawTheClaimWait(t *testing.T) {
	for _, c := range []struct {
		seen int64
		want time.Duration
	}{{0, 0}, {900_000, time.Second}, {1_250_000, 750 * time.Millisecond}, {3_000_000, 0}} {
		l, offer := New(noRows{}), locker.Offer{}
		l.desk.traits.Clock, l.lookout.waker = true, offered{hasty{l: l}, &offer}
		l.book.looks(&locker.Claim{Key: "k", Owner: "o", TTL: 10 * time.Second})
		if c.seen > 0 {
			l.book.saw("o", c.seen)
		}
		r := &row{owners: []share{{Owner: "o", Limit: 1, term: term{Length: 1e6, Ends: 2e6}}}, now: 1e6}
		l.lookout.told("k", r, []waiter{{Owner: "o"}}, time.Now())
		if offer.Length != c.want {
			t.Errorf("seen at %d: %v, want %v", c.seen, offer.Length, c.want)
		}
	}
}

// Without a clock, what a read tells may be older than the read by the grain.
func TestAnOfferLastsLongerForOthersByTheGrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grain = 20 * time.Millisecond
		ls, _ := peers(t, 3, func(m *memRows) *Locker { return New(grained{memEars{m}, grain}) })
		a, b, c := wants('a', 1), wants('b', 1), wants('c', 1)
		take(t, ls[0], a)
		if x, err := ls[1].Acquire(t.Context(), b, locker.Try{Wait: true}); err != nil || !x.Queued {
			t.Fatalf("%+v, %v", x, err)
		}
		if _, err := ls[0].Release(t.Context(), a, locker.End{}); err != nil {
			t.Fatal(err)
		}
		for _, at := range []struct {
			after time.Duration
			owns  bool
		}{{0, false}, {b.ShortOffer() + grain - time.Millisecond, false}, {2 * time.Millisecond, true}} {
			time.Sleep(at.after)
			x, err := ls[2].Acquire(t.Context(), c, locker.Try{})
			if err != nil || x.Acquired != at.owns {
				t.Errorf("%v later: %+v, %v, want acquired %v", at.after, x, err, at.owns)
			}
		}
	})
}

// grained are Rows with a grain.
type grained struct {
	memEars
	grain time.Duration
}

func (g grained) Traits() Traits {
	t := g.memEars.Traits()
	t.Grain = g.grain
	return t
}
