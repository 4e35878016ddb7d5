package redislocker_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// lingering returns a claim that lingers.
func lingering(key string) *locker.Claim {
	c := claim(key)
	c.Lingers, c.Holder.Name = true, `a "name"`
	return c
}

// A claim that waits for one that lingers tells its owner again at each look,
// whatever kind of claim it is. It does not tell any other owner.
func TestALookTellsAnOwnerThatLingersAgain(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, es := listening(t, rdb, 2)
	shared := func(key string) *locker.Claim {
		c := claim(key)
		c.Limit = locker.NoLimit
		return c
	}
	for name, waits := range map[string]func(key string) *locker.Claim{
		"alone": claim, "recalls": recalls, "shared": shared,
	} {
		for _, lingers := range []bool{true, false} {
			owner, waiter := claim(name), waits(name)
			if lingers {
				owner = lingering(name)
			}
			mustAcquire(t, ls[0], owner)
			ttl, first := rdb.PTTL(t.Context(), lock(name)).Val(), owner.First()
			if ttl > first || ttl < first-4*time.Second {
				t.Errorf("%s: the first lease is %v, want %v", name, ttl, first)
			}
			for n := range 3 {
				a := held(t, ls[1], waiter, locker.Try{Wait: true, Queued: n > 0})
				if a.Lingers != lingers || !a.Queued {
					t.Errorf("%s: answer %+v, want Lingers %t", name, a, lingers)
				}
				if lingers || n == 0 {
					es[0].wanted(t, name)
				} else {
					time.Sleep(5 * time.Millisecond)
					es[0].nothing(t)
				}
			}
			mustRelease(t, ls[0], owner)
			es[1].granted(t, waiter, 0)
			mustRelease(t, ls[1], waiter)
		}
	}
}

// A try without a wait, and one for several keys, learn that the owner lingers.
func TestATryLearnsThatTheOwnerLingers(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	a, b := open(t, rdb), open(t, rdb)
	for _, lingers := range []bool{true, false} {
		owner := claim("k")
		if owner.Lingers = lingers; lingers {
			owner.Fencing = true // asks redislock
		}
		mustAcquire(t, a, owner)
		if got := held(t, b, claim("k"), locker.Try{}); got.Lingers != lingers {
			t.Errorf("Acquire: Lingers %t, want %t", got.Lingers, lingers)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // too short for two trips
		if got, err := b.Acquire(ctx, claim("k"), locker.Try{}); err == nil && got.Lingers != lingers {
			t.Errorf("Acquire in little time: Lingers %t, want %t", got.Lingers, lingers)
		}
		cancel()
		as, at, err := b.AcquireAll(t.Context(), []*locker.Claim{claim("free"), claim("k")}, false)
		if err != nil || at != 1 || as[1].Lingers != lingers {
			t.Errorf("AcquireAll: %+v, %d, %v, want Lingers %t", as, at, err, lingers)
		}
		mustRelease(t, a, owner)
	}
}

// Listens is true exactly while messages are sure to arrive, and each change
// comes with a WakeAll.
func TestListensWhileMessagesArrive(t *testing.T) {
	t.Parallel() // it mostly waits
	_, p, _, rdb := behindProxy(t)
	unopened := redislocker.New(rdb)
	if unopened.Listens() {
		t.Error("it listens before Open")
	}
	e := newEar()
	l := openFor(t, e, rdb)
	if l.Listens() {
		t.Error("it listens before the server has confirmed that")
	}
	e.wakeAll(t)
	if !l.Listens() {
		t.Error("it does not listen")
	}
	p.DropUp(true)
	p.CutAll()
	e.wakeAll(t)
	if l.Listens() {
		t.Error("it listens without a connection")
	}
	p.DropUp(false)
	eventually(t, "it listens again", l.Listens)
	e.wakeAll(t)
	_ = l.Close(context.WithoutCancel(t.Context()))
	if l.Listens() {
		t.Error("it listens after Close")
	}
}
