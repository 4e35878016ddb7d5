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

func TestAKeyThatAStrangerOwnsIsNotRevoked(t *testing.T) {
	for _, owner := range []string{"b", "x"} {
		r := at(held(t), 101)
		if res := r.apply(&request{verb: revoke, key: "k", owner: owner}); res.ok || r.dirty || len(r.queue) != 2 {
			t.Errorf("revoke by %s: %+v, queue %+v", owner, res, r.queue)
		}
	}
}
