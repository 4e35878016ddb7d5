package redislocker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const restful = 8 * time.Second

// restOf looks at c, which is in the queue already. It returns the rest that c
// is granted.
func restOf(t *testing.T, l locker.Locker, c *locker.Claim) time.Duration {
	t.Helper()
	a := held(t, l, c, locker.Try{Wait: true, Queued: true, Rest: restful})
	if !a.Queued {
		t.Fatalf("%+v, want it queued", a)
	}
	return a.Rest
}

// Law 6.
func TestNoRestWhereAMessageMayNotCome(t *testing.T) {
	s := redistest.Start(t)
	t.Run("without the right to subscribe", func(t *testing.T) {
		rdb := as(t, s, []string{"~guard:*", "+@all", "&*", "-subscribe"})
		a, b := open(t, rdb), open(t, rdb)
		c := claim("k")
		mustAcquire(t, a, claim("k"))
		queue(t, b, c)
		if got := restOf(t, b, c); got != 0 {
			t.Errorf("a rest of %v", got)
		}
	})
	t.Run("from a holder that is no guard", func(t *testing.T) {
		rdb := redistest.Client(t, s.Addr)
		ls, _ := listening(t, rdb, 1)
		c := claim("theirs")
		rdb.Set(t.Context(), lock("theirs"), "theirs", time.Minute)
		queue(t, ls[0], c)
		if got := restOf(t, ls[0], c); got != 0 {
			t.Errorf("a rest of %v", got)
		}
	})
}

func TestALostSubscriptionWakesWhoRestsAtOnce(t *testing.T) {
	s := redistest.Start(t)
	rdb := as(t, s, []string{"~guard:*", "+@all", "&*"})
	ls, es := listening(t, rdb, 1)
	c := claim("k")
	mustAcquire(t, open(t, rdb), claim("k"))
	queue(t, ls[0], c)
	if got := restOf(t, ls[0], c); got == 0 {
		t.Fatal("no rest")
	}
	admin := redistest.Client(t, s.Addr)
	user := rdb.Options().Username
	for _, err := range []error{
		admin.Do(t.Context(), "acl", "setuser", user, "-subscribe").Err(), // it does not come back
		admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	es[0].wakeAll(t)
	if got := restOf(t, ls[0], c); got != 0 {
		t.Errorf("a rest of %v after the subscription was lost", got)
	}
	es[0].nothing(t)
}

// A claim may be queued before its process can hear, and rest once it can. It
// is passed over like a claim that was told from the first. Otherwise each dead
// one would cost an offer for as long as its rest.
func TestADeadClaimThatRestedIsPassedOver(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 1)
	var l *redislocker.Locker
	var a, dead *locker.Claim
	for try := 1; ; try++ { // on a busy machine a process may hear before it asks
		key := fmt.Sprint("k", try)
		e := newEar()
		l = openFor(t, e, rdb)
		a, dead = claim(key), claim(key)
		mustAcquire(t, ls[0], a)
		queue(t, l, dead)
		e.wakeAll(t)
		entries := lineUp(t, rdb, key)
		if len(entries) == 1 && entries[0][0] == 'l' {
			break
		}
		if try == 50 {
			t.Fatalf("the queue has %q, want an entry of one that only looks", entries)
		}
	}
	if restOf(t, l, dead) == 0 {
		t.Fatal("no rest")
	}
	time.Sleep(locker.LookEvery + 50*time.Millisecond) // until then only the place tells when it was seen
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, ls[0], a, nil, locker.Released{Waiting: 1})
}
