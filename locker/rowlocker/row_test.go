package rowlocker

import (
	"slices"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// at returns a row that was read at the given second.
func at(r row, second float64) row {
	r.now, r.dirty, r.queue, r.owners = int64(second*1e6), false, slices.Clone(r.queue), slices.Clone(r.owners)
	r.seq, r.heirs = r.now, nil
	return r
}

// sole returns the owner that is alone, or "".
func sole(r *row) string {
	if own := r.alone(); own != nil {
		return own.Owner
	}
	return ""
}

const ttl = int64(10 * time.Second / time.Microsecond)

func asks(owner string, wait bool) *request {
	return &request{
		verb: acquire, key: "k", owner: owner, ttl: ttl, offer: 1e6, fencing: true, holder: []byte("{}"),
		try: locker.Try{Wait: wait},
	}
}

// held returns a row that a owns from second 100 on, with b and c behind it.
func held(t *testing.T) row {
	t.Helper()
	r := at(row{}, 100)
	if res := r.apply(asks("a", false)); !res.ok || !r.dirty {
		t.Fatalf("a new key: %+v, want it acquired", res)
	}
	for i, owner := range []string{"b", "c"} {
		r = at(r, 100.1+float64(i)/10)
		if res := r.apply(asks(owner, true)); res.ok || !res.queued || !r.dirty {
			t.Fatalf("behind a: %+v, want it queued", res)
		}
	}
	return r
}

func TestAReleaseHandsTheKeyToTheFirstThatWasSeen(t *testing.T) {
	for _, c := range []struct {
		at   float64
		seen string // looks at second 102
		want string
	}{{101, "", "b"}, {102.15, "", "c"}, {103, "c", "c"}, {103, "b", "b"}, {105, "b", ""}} {
		r := held(t)
		if c.seen != "" {
			r = at(r, 102)
			r.apply(asks(c.seen, true))
		}
		before := r.token
		r = at(r, c.at)
		res := r.apply(&request{verb: release, key: "k", owner: "a"})
		if !res.ok || sole(&r) != c.want || res.handed != (c.want != "") {
			t.Errorf("at %v, %q seen: owner %q, %+v; want %q", c.at, c.seen, sole(&r), res, c.want)
		}
		if c.want != "" && (r.token < before+locker.FenceBlock || r.remains() != 1e6) {
			t.Errorf("the hand-over gives token %d after %d, for %d", r.token, before, r.remains())
		}
	}
}

func TestAKeyWhoseLeaseHasEndedIsNobodysInEveryVerb(t *testing.T) {
	for _, q := range []*request{
		{verb: fence, key: "k", owner: "a"},
		{verb: revoke, key: "k", owner: "a"},
		{verb: release, key: "k", owner: "a"},
	} {
		r := at(held(t), 110)
		if res := r.apply(q); res.ok {
			t.Errorf("verb %v by the owner, when the TTL is over: %+v", q.verb, res)
		}
	}
	r := at(held(t), 110)
	if res := r.apply(asks("d", false)); !res.ok {
		t.Errorf("Acquire when the TTL is over: %+v", res)
	}
	r = at(held(t), 109.999)
	if res := r.apply(asks("d", false)); res.ok {
		t.Errorf("Acquire before the TTL is over: %+v", res)
	}
}

func TestAnOwnerIDIsQueuedOnce(t *testing.T) {
	r := at(held(t), 101)
	q := asks("d", true)
	q.try.Queued = true
	if res := r.apply(q); res.queued || r.dirty {
		t.Errorf("a claim that was in the queue before is queued again: %+v", res)
	}
}

func TestALookIsWrittenOnceIn400ms(t *testing.T) {
	r := at(held(t), 100.4)
	if res := r.apply(asks("b", true)); !res.queued || r.dirty {
		t.Errorf("0.3 s after the last look: %+v, written: %v", res, r.dirty)
	}
	r = at(r, 100.51)
	if res := r.apply(asks("b", true)); !res.queued || !r.dirty {
		t.Errorf("0.41 s after the last look: %+v, written: %v", res, r.dirty)
	}
}

func TestAPlaceIsTakenAgainBehindThoseThatHaveIt(t *testing.T) {
	r := at(held(t), 101)
	q := asks("d", true)
	q.try.Place = locker.Place(r.queue[0].Place)
	r.apply(q)
	var order []string
	for _, w := range r.queue {
		order = append(order, w.Owner)
	}
	if !slices.Equal(order, []string{"b", "d", "c"}) {
		t.Errorf("the queue is %v, want b d c", order)
	}
}

func TestTheReleaserGoesToTheBack(t *testing.T) {
	r := at(held(t), 101)
	res := r.apply(&request{verb: release, key: "k", owner: "a", next: "d", offer: 1e6, holder: []byte("{}")})
	if !res.queued || res.waiting != 2 || sole(&r) != "b" || r.queue[len(r.queue)-1].Owner != "d" {
		t.Errorf("%+v, owner %q, queue %+v", res, sole(&r), r.queue)
	}
	r = at(row{}, 100)
	r.apply(asks("a", false))
	r = at(r, 101)
	res = r.apply(&request{verb: release, key: "k", owner: "a", next: "d"})
	if !res.ok || res.queued || sole(&r) != "" || len(r.queue) > 0 {
		t.Errorf("nobody waits: %+v, owner %q, queue %+v", res, sole(&r), r.queue)
	}
}

func TestTokensRiseWhenTheClockStandsOrGoesBack(t *testing.T) {
	r := at(row{}, 100)
	first := r.apply(asks("a", false)).token
	for _, second := range []float64{100, 99, 50} {
		r = at(r, second)
		next := r.apply(&request{verb: fence, key: "k", owner: "a"}).token
		if next < first+locker.FenceBlock {
			t.Errorf("at %v: token %d after %d", second, next, first)
		}
		first = next
	}
}

func TestAKeyThatAStrangerOwnsIsNotRevoked(t *testing.T) {
	for _, owner := range []string{"b", "x"} {
		r := at(held(t), 101)
		if res := r.apply(&request{verb: revoke, key: "k", owner: owner}); res.ok || r.dirty || len(r.queue) != 2 {
			t.Errorf("revoke by %s: %+v, queue %+v", owner, res, r.queue)
		}
	}
}

// An operator who was told that a key was taken must not find its owner again.
func TestACrashDoesNotUndoAReleaseByForce(t *testing.T) {
	for v, want := range map[verb]bool{release: true, revoke: false} {
		r := at(row{}, 100)
		r.apply(asks("a", false))
		r = at(r, 101)
		r.owners[0].Since = 100e6
		if res := r.apply(&request{verb: v, key: "k", owner: "a"}); !res.ok || r.loose() != want {
			t.Errorf("verb %d: %+v, may be undone %v", v, res, r.loose())
		}
	}
}
