package faults

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Waiters, and how they learn of their turns.

// poll is longer than a waiter may sleep after a lost message.
const poll = 500*time.Millisecond + slow

// silent is longer than a waiter may need whose looks get no answer either. It
// sleeps, gives a look up after half a second, and looks again over another
// connection, which may be dead too.
const silent = 3*750*time.Millisecond + slow

// waits lets g wait for the key in a new goroutine. It returns a channel that
// receives the lease.
func waits(t *testing.T, g *guard.Guard) <-chan *guard.Lease {
	t.Helper()
	got := make(chan *guard.Lease, 1)
	go func() { // ends when the wait does
		l, err := g.Acquire(t.Context(), key)
		if err != nil {
			t.Errorf("Acquire: %v", err)
		}
		got <- l
	}()
	return got
}

// queued waits until a waiter for the key is in the store.
func queued(t *testing.T, rdb *redis.Client) {
	t.Helper()
	testguard.Eventually(t, "a waiter is queued",
		func() bool { return rdb.ZCard(t.Context(), lock(key)+":wait").Val() > 0 })
}

func TestFault23ALostMessageCostsOneLook(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	a := on(t, n.server.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	b := on(t, n.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	warm(t, b)
	handOver := func(what string, fault func(), limit time.Duration) time.Duration {
		l := acquire(t, a, key)
		got := waits(t, b)
		queued(t, n.direct)
		fault()
		start := time.Now()
		mustRelease(t, l)
		theirs := <-got
		d := took(t, what, start, limit)
		mustRelease(t, theirs)
		return d
	}
	var dropped, silenced time.Duration
	for range 5 {
		kill := func() { n.direct.ClientKillByFilter(t.Context(), "TYPE", "pubsub") }
		dropped = max(dropped, handOver("after a dropped subscription", kill, poll))
		silenced = max(silenced, handOver("after connections that died without a word", n.SilenceAll, silent))
	}
	killing, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop
		for killing.Err() == nil {
			n.direct.ClientKillByFilter(killing, "TYPE", "pubsub")
			time.Sleep(100 * time.Millisecond)
		}
	})
	for range 5 {
		dropped = max(dropped, handOver("with subscriptions dropped all the time", func() {}, poll))
	}
	stop()
	wg.Wait()
	keeps(t, "a waiter had the key at most %v after the release, or %v where all its connections died without a word",
		dropped, silenced)
}

func TestFault23SubscriptionsThatAreKilledAgainAndAgainAreNoPolling(t *testing.T) {
	begin(t)
	killedSubscriptions(t, oneServer(t))
}

func TestFault23SubscriptionsThatAreKilledUnderSentinelAreNoPolling(t *testing.T) {
	begin(t)
	killedSubscriptions(t, underSentinel(t))
}

// killedSubscriptions compares the turns on a key while subscriptions live,
// while they are killed again and again, and while nobody may subscribe.
func killedSubscriptions(t *testing.T, p *place) {
	t.Helper()
	const instances, span = 20, 2 * time.Second
	gs := make([]*guard.Guard, instances)
	for i := range gs {
		gs[i] = p.open(t, guard.WithTTL(long), guard.WithMaxWait(long))
		warm(t, gs[i])
	}
	rate := func() float64 { return takeTurns(t, gs, nil, span).rate(0, span) }
	kill := func() { p.direct[0].ClientKillByFilter(t.Context(), "TYPE", "pubsub") }
	began := time.Now()
	quiet := rate()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop
		for every := time.NewTicker(100 * time.Millisecond); ; <-every.C {
			select {
			case <-stop:
				every.Stop()
				return
			default:
				kill()
			}
		}
	})
	killed := rate()
	close(stop)
	wg.Wait()
	command(t, p.direct[0], "acl", "setuser", "default", "-subscribe")
	kill()
	polled := rate()
	if killed == 0 && steady(t, began) || killed < quiet/10 && timed(t, began) {
		t.Errorf("%.0f turns/s while subscriptions are killed every 100 ms, %.0f before", killed, quiet)
	}
	keeps(t, "%s: with subscriptions killed every 100 ms, %d instances took %.0f turns/s at one key, %.0f "+
		"before, and %.0f "+
		"without the right to subscribe", p.name, instances, killed, quiet, polled)
}

// between calls a function before or after the n-th request of a client.
type between struct {
	left atomic.Int64 // to the request
	then func()
	late bool // after its reply
}

func (h *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		return h.around(func() error { return next(ctx, c) })
	}
}

func (h *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		return h.around(func() error { return next(ctx, cs) })
	}
}

func (h *between) around(send func() error) error {
	mine := h.left.Add(-1) == 0
	if mine && !h.late {
		h.then()
	}
	err := send()
	if mine && h.late {
		h.then()
	}
	return err
}

func TestFault24AReleaseBetweenAnyTwoStepsOfAWaiterWakesIt(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	a := on(t, n.server.Addr, guard.WithTTL(long))
	warm(t, a)
	steps := 0
	for at := int64(1); at <= 4; at++ {
		for _, late := range []bool{false, true} {
			l := acquire(t, a, key)
			var released time.Time
			h := &between{late: late, then: func() {
				released = time.Now()
				_ = l.Release(t.Context())
			}}
			h.left.Store(at)
			b := newGuardOn(t, redislocker.New(n.direct, redislocker.WithHook(h)), guard.WithTTL(long),
				guard.WithMaxWait(long))
			theirs := <-waits(t, b)
			if released.IsZero() {
				t.Fatalf("step %d: it had the key before the release", at)
			}
			took(t, "the wake-up", released, poll)
			mustRelease(t, theirs)
			steps++
			if err := b.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	keeps(t, "released before and after each of its first 4 requests: woken each time")
}

func TestFault25AWaiterThatLeavesAsItsTurnComesPassesItOn(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	a := on(t, n.server.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	b := on(t, n.server.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	warm(t, b)
	got, gone := 0, 0
	for i := range 60 {
		waiter := b
		if i%2 == 1 {
			waiter = a // the turn comes within the process
		}
		l := acquire(t, a, key)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- waiter.Do(ctx, key, nop) }() // ends with ctx, or its turn
		if waiter == b {
			queued(t, n.direct)
		} else {
			time.Sleep(2 * time.Millisecond)
		}
		leave := time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel) // 0 to 1.2 ms: around the hand-over
		mustRelease(t, l)
		switch err := <-done; {
		case err == nil:
			got++
		case errors.Is(err, context.Canceled):
			gone++
		default:
			t.Errorf("Do: %v", err)
		}
		start := time.Now()
		mustRelease(t, acquire(t, a, key))
		took(t, "the key after a waiter that left", start, poll)
		leave.Stop()
		cancel()
	}
	keeps(t, "%d waiters left around their turn, %d had it first: the key was free at once each time", gone, got)
}

func TestFault33ACallerWhoLeavesBeforeItsFunctionStartsLeavesNoKey(t *testing.T) {
	begin(t)
	s := serve(t)
	rdb := redistest.Client(t, s.Addr)
	for _, late := range []bool{false, true} { // as its request is sent, and as the answer comes
		ctx, leave := context.WithCancel(t.Context())
		h := &between{late: late, then: leave}
		h.left.Store(1)
		g := newGuardOn(t, redislocker.New(rdb, redislocker.WithHook(h)), guard.WithTTL(long))
		err := g.Do(ctx, key, func(context.Context) error { t.Error("the function was started"); return nil })
		wantErr(t, err, guard.ErrNotAcquired, context.Canceled)
		isFree(t, rdb, key)
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	keeps(t, "the function does not run, the key is released")
}
