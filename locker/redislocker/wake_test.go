package redislocker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// gate is a Waker that tells the test what it hears.
type gate struct {
	heard chan string
	deaf  chan struct{} // closed: nobody waits here any more
}

func (g *gate) Wake(key string, waiting int) bool {
	select {
	case <-g.deaf:
		return false
	default:
	}
	g.heard <- fmt.Sprintf("wake %s, %d behind", key, waiting)
	return true
}

func (g *gate) Wanted(key string) { g.heard <- "wanted " + key }
func (g *gate) WakeAll()          { g.heard <- "wake all" }

func (g *gate) wants(t *testing.T, what string) {
	t.Helper()
	select {
	case got := <-g.heard:
		if got != what {
			t.Fatalf("heard %q, want %q", got, what)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("heard nothing, want %q", what)
	}
}

func (g *gate) hearsNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-g.heard:
		t.Fatalf("heard %q", got)
	default:
	}
}

// waiting opens n lockers whose inboxes are open, for a test that has them wait for k.
func waiting(t *testing.T, rdb redis.UniversalClient, n int) ([]*redislocker.Locker, []*gate) {
	t.Helper()
	ls, gs := make([]*redislocker.Locker, n), make([]*gate, n)
	mustAcquire(t, open(t, rdb), claim("held"))
	for i := range ls {
		gs[i] = &gate{heard: make(chan string, 100), deaf: make(chan struct{})}
		ls[i] = redislocker.New(rdb)
		if err := ls[i].Open(gs[i]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ls[i].Close(context.WithoutCancel(t.Context())) })
		wait(t, ls[i], waits("held"))
		gs[i].wants(t, "wake all") // the subscription is confirmed
	}
	return ls, gs
}

func waits(key string) *guard.Claim {
	c := claim(key)
	c.Waits = true
	return c
}

func wait(t *testing.T, l guard.Locker, c *guard.Claim) {
	t.Helper()
	if _, err := l.Acquire(t.Context(), c); !errors.Is(err, guard.ErrNotAcquired) {
		t.Fatalf("Acquire: %v, want ErrNotAcquired", err)
	}
}

func free(t *testing.T, l guard.Locker, c *guard.Claim, want guard.Freed) {
	t.Helper()
	if f, err := l.Release(t.Context(), c); err != nil || f != want {
		t.Fatalf("Release: %+v, %v, want %+v", f, err, want)
	}
}

func TestAReleaseTellsTheFirstInTheQueue(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, gs := waiting(t, rdb, 4)
	a, b, c, d := claim("k"), waits("k"), waits("k"), waits("k")
	mustAcquire(t, ls[0], a)
	wait(t, ls[1], b)
	gs[0].wants(t, "wanted k")
	wait(t, ls[2], c)
	wait(t, ls[3], d)
	gs[0].wants(t, "wanted k")
	gs[0].wants(t, "wanted k")
	b.Tries = 1
	wait(t, ls[1], b) // looking again costs no place, and says nothing twice
	if !b.Queued {
		t.Error("not queued")
	}
	a.Waits = true // others of the releaser's wait
	free(t, ls[0], a, guard.Freed{Waiting: 3, Woken: true})
	gs[1].wants(t, "wake k, 3 behind")

	mustAcquire(t, ls[3], d) // overtakes
	b.Tries = 0
	wait(t, ls[1], b) // beaten: first in the queue again, in front of c
	gs[3].wants(t, "wanted k")
	d.Waits = false
	free(t, ls[3], d, guard.Freed{Waiting: 3, Woken: true})
	gs[1].wants(t, "wake k, 2 behind")
	mustAcquire(t, ls[1], b)
	b.Waits = false
	free(t, ls[1], b, guard.Freed{Waiting: 2, Woken: true})
	gs[2].wants(t, "wake k, 1 behind")
	mustAcquire(t, ls[2], c)
	c.Waits = false
	free(t, ls[2], c, guard.Freed{Waiting: 1, Woken: true})
	gs[0].wants(t, "wake k, 0 behind") // queued by its release
	for _, g := range gs {
		g.hearsNothing(t)
	}
}

func TestAWakeUpIsPassedOnByWhoCannotUseIt(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, gs := waiting(t, rdb, 5)
	a := claim("k")
	mustAcquire(t, ls[0], a)
	for _, l := range ls[1:] {
		wait(t, l, waits("k"))
	}
	_ = ls[1].Close(t.Context()) // is there no more: nobody hears the message
	close(gs[2].deaf)            // nobody waits there any more
	free(t, ls[0], a, guard.Freed{Waiting: 4, Woken: true})
	gs[3].wants(t, "wake k, 1 behind")
	ls[3].PassOn("k") // came to nobody
	gs[4].wants(t, "wake k, 0 behind")
}

func TestAYieldingTryQueuesForAFreeKey(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, gs := waiting(t, rdb, 2)
	a, b := waits("k"), claim("k")
	a.Yield = true
	wait(t, ls[0], a)
	if !a.Queued {
		t.Error("not queued")
	}
	mustAcquire(t, ls[1], b)
	free(t, ls[1], b, guard.Freed{Waiting: 1, Woken: true})
	gs[0].wants(t, "wake k, 0 behind")
}

func TestAbandoningAKeyWakesWhoWaitsForIt(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, gs := waiting(t, rdb, 2)
	a := claim("k")
	mustAcquire(t, ls[0], a)
	wait(t, ls[1], waits("k"))
	ls[0].Abandon(a)
	gs[0].wants(t, "wanted k")
	gs[1].wants(t, "wake k, 0 behind")
}

func TestEachNewSubscriptionWakesEverybody(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	_, gs := waiting(t, rdb, 2)
	for range 5 {
		if err := rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		gs[0].wants(t, "wake all")
		gs[1].wants(t, "wake all")
	}
}

func TestWithoutTheRightToSubscribeWaitingIsPolling(t *testing.T) {
	s := redistest.Start(t)
	rdb := as(t, s, []string{"~guard:*", "+@all", "-subscribe", "-publish"})
	a, b := open(t, rdb), open(t, rdb)
	c, w := claim("k"), waits("k")
	mustAcquire(t, a, c)
	wait(t, b, w)
	if w.Queued {
		t.Error("the gate would wait for a wake-up")
	}
	free(t, a, c, guard.Freed{Waiting: 1}) // so that the gate stands back
}
