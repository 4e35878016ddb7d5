package redislocker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

func lost(err error) bool { return errors.Is(err, locker.ErrLeaseLost) }

// Law 2: the claim was granted, and came too late.
func TestAClaimThatHasLeftTheQueueIsNotQueuedAgain(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	a, b := open(t, rdb), open(t, rdb)
	w := claim("k")
	mustAcquire(t, a, claim("k"))
	place := queue(t, b, w)
	rdb.Del(t.Context(), line("k"))
	for _, wait := range []bool{true, false} {
		got := held(t, b, w, locker.Try{Wait: wait, Queued: true, Place: place})
		if got.Queued || got.Place != 0 || len(lineUp(t, rdb, "k")) > 0 {
			t.Errorf("%+v with the queue %q, want it not queued", got, lineUp(t, rdb, "k"))
		}
	}
}

func TestATryThatDoesNotWaitIsNotQueued(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	mustAcquire(t, ls[0], claim("k"))
	for _, how := range []locker.Try{{}, {Held: true}, {Place: 5}} {
		if a := held(t, ls[1], claim("k"), how); a.Queued || a.Place != 0 || a.Remaining <= 0 {
			t.Errorf("%+v: %+v", how, a)
		}
	}
	if e := lineUp(t, rdb, "k"); len(e) > 0 {
		t.Errorf("the queue has %q", e)
	}
	es[0].nothing(t)
}

func TestANewClaimKeepsThePlaceOfTheOneBefore(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 3)
	a, b, c := claim("k"), claim("k"), claim("k")
	mustAcquire(t, ls[0], a)
	place := queue(t, ls[1], b)
	if p := queue(t, ls[2], c); p <= place {
		t.Fatalf("places %d and %d do not rise", place, p)
	}
	ls[1].Abandon(b, false)
	eventually(t, "b has left the queue", func() bool { return len(lineUp(t, rdb, "k")) == 1 })
	b = claim("k")
	if got := held(t, ls[1], b, locker.Try{Wait: true, Place: place}); !got.Queued || got.Place != place {
		t.Fatalf("%+v, want the place %d", got, place)
	}
	release(t, ls[0], a, nil, locker.Released{Waiting: 2, Handed: true})
	es[1].granted(t, b, 1)
}

func TestALookAtAFreeKeyTakesTheClaimOutOfTheQueue(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 3)
	a, b, c := claim("k"), claim("k"), claim("k")
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	queue(t, ls[2], c)
	rdb.Del(t.Context(), lock("k")) // its TTL has ended
	mustTry(t, ls[1], b, locker.Try{Wait: true, Queued: true})
	if e := lineUp(t, rdb, "k"); len(e) != 1 || !strings.Contains(e[0], c.Owner) {
		t.Errorf("the queue has %q, want c alone", e)
	}
	release(t, ls[1], b, nil, locker.Released{Waiting: 1, Handed: true})
	es[2].granted(t, c, 0)
	es[1].nothing(t)
}

func TestAbandonTakesTheClaimOutOfTheQueueAndTheKey(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 3)
	a, b, c := claim("k"), claim("k"), claim("k")
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	queue(t, ls[2], c)
	ls[1].Abandon(b, false)
	eventually(t, "b has left the queue", func() bool { return len(lineUp(t, rdb, "k")) == 1 })
	if err := renew(t.Context(), t, ls[0], a)[0]; err != nil {
		t.Errorf("the owner, after another left the queue: %v", err)
	}
	ls[0].Abandon(a, false)
	es[2].granted(t, c, 0)
	ls[2].Abandon(c, false)
	emptied(t, rdb)
	es[1].nothing(t)
}

// A release may come so late that the TTL has ended. The waiters are served all
// the same (law 3).
func TestALateReleaseOfAFreeKeyHandsItOn(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	a, b := claim("k"), claim("k")
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	rdb.Del(t.Context(), lock("k"))
	r, err := ls[0].Release(t.Context(), a, claim("k"))
	if !lost(err) || !r.Handed || r.Queued {
		t.Errorf("Release: %+v, %v, want ErrLeaseLost, the key handed over and nobody queued", r, err)
	}
	es[1].granted(t, b, 0)
}

func TestAKeyWithAnEmptyValueIsSomebodyElses(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	a, b := claim("k"), claim("k")
	rdb.Set(t.Context(), lock("k"), "", 0)
	queue(t, ls[1], b)
	if r, err := ls[0].Release(t.Context(), a, nil); !lost(err) || r.Handed {
		t.Errorf("Release: %+v, %v, want ErrLeaseLost", r, err)
	}
	if err := renew(t.Context(), t, ls[0], a)[0]; !lost(err) {
		t.Errorf("Renew: %v, want ErrLeaseLost", err)
	}
	ls[0].Abandon(a, false)
	if err := ls[0].Close(t.Context()); err != nil { // does at once what is left
		t.Fatal(err)
	}
	if v, err := rdb.Get(t.Context(), lock("k")).Result(); v != "" || err != nil {
		t.Errorf("the key is %q, %v, want it untouched", v, err)
	}
	if got := held(t, ls[1], b, locker.Try{Wait: true, Queued: true}); !got.Queued {
		t.Errorf("%+v, want it queued", got)
	}
	es[1].nothing(t)
}

func TestAQueueThatNobodyComesBackToEnds(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 2)
	a, b := claim("k"), claim("k")
	mustAcquire(t, ls[0], a)
	lasts := func(what string, limit time.Duration) {
		t.Helper()
		if d := rdb.PTTL(t.Context(), line("k")).Val(); d <= 0 || d > limit {
			t.Errorf("%s: the queue lasts %v, want up to %v", what, d, limit)
		}
	}
	queue(t, ls[1], b)
	lasts("queued by a look", locker.QueueLife)
	rdb.Persist(t.Context(), line("k"))
	held(t, ls[1], b, locker.Try{Wait: true, Queued: true})
	lasts("looked again", locker.QueueLife)
	release(t, ls[0], a, claim("k"), locker.Released{Waiting: 1, Handed: true, Queued: true})
	lasts("queued by a release", locker.QueueLife+locker.LookEvery)
}

func TestWhoComesLastIsBehindAllThoughTheServersClockWasSetBack(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 3)
	a, b, c, next := claim("k"), claim("k"), claim("k"), claim("k")
	mustAcquire(t, ls[0], a)
	const ahead = 4_000_000_000_000_000 // in 2096
	if got := held(t, ls[1], b, locker.Try{Wait: true, Place: ahead}); got.Place != ahead {
		t.Fatalf("%+v, want the place %d", got, locker.Place(ahead))
	}
	if place := queue(t, ls[2], c); place != ahead+1 {
		t.Errorf("place %d behind %d", place, locker.Place(ahead))
	}
	es[0].wanted(t, "k")
	es[0].wanted(t, "k")
	if r, err := ls[0].Release(t.Context(), a, next); err != nil || r.Place != ahead+2 {
		t.Errorf("Release: %+v, %v, behind %d", r, err, locker.Place(ahead+1))
	}
	es[1].granted(t, b, 2)
	release(t, ls[1], b, nil, locker.Released{Waiting: 2, Handed: true})
	es[2].granted(t, c, 1)
	release(t, ls[2], c, nil, locker.Released{Waiting: 1, Handed: true})
	es[0].granted(t, next, 0)
}
