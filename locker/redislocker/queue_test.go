package redislocker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

func lost(err error) bool { return errors.Is(err, locker.ErrLeaseLost) }

func TestAKeyWithAnEmptyValueIsSomebodyElses(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	a, b := claim("k"), claim("k")
	rdb.Set(t.Context(), lock("k"), "", 0)
	queue(t, ls[1], b)
	if r, err := ls[0].Release(t.Context(), a, locker.End{}); !lost(err) || r.Handed {
		t.Errorf("Release: %+v, %v, want ErrLeaseLost", r, err)
	}
	if err := renew(t.Context(), t, ls[0], a)[0]; !lost(err) {
		t.Errorf("Renew: %v, want ErrLeaseLost", err)
	}
	_, _ = ls[0].Release(t.Context(), a, locker.End{Queued: true})
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
	if r, err := ls[0].Release(t.Context(), a, locker.End{Next: next}); err != nil || r.Place != ahead+2 {
		t.Errorf("Release: %+v, %v, behind %d", r, err, locker.Place(ahead+1))
	}
	es[1].granted(t, b, 2)
	release(t, ls[1], b, nil, locker.Released{Waiting: 2, Handed: true})
	es[2].granted(t, c, 1)
	release(t, ls[2], c, nil, locker.Released{Waiting: 1, Handed: true})
	es[0].granted(t, next, 0)
}
