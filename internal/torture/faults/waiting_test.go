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
	"github.com/go-lockguard/guard/internal/torture/faults/rig"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Waiters, and how they learn of their turns.

// poll is longer than a waiter may sleep after a lost message.
const poll = 500*time.Millisecond + slow

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
	rig.Eventually(t, "a waiter is queued", func() bool { return rdb.ZCard(t.Context(), lock(key)+":wait").Val() > 0 })
}

func TestFault23ALostMessageCostsOneLook(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	a := on(t, n.server.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	b := on(t, n.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	warm(t, b)
	var worst time.Duration
	handOver := func(what string, fault func()) {
		l := acquire(t, a, key)
		got := waits(t, b)
		queued(t, n.direct)
		fault()
		start := time.Now()
		mustRelease(t, l)
		theirs := <-got
		worst = max(worst, took(t, what, start, poll))
		mustRelease(t, theirs)
	}
	for range 5 {
		handOver("after a dropped subscription", func() { n.direct.ClientKillByFilter(t.Context(), "TYPE", "pubsub") })
	}
	handOver("after connections that died without a word", n.SilenceAll)
	killing, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop
		for killing.Err() == nil {
			n.direct.ClientKillByFilter(killing, "TYPE", "pubsub")
			time.Sleep(100 * time.Millisecond)
		}
	})
	for range 5 {
		handOver("with subscriptions dropped all the time", func() {})
	}
	stop()
	wg.Wait()
	keeps(t, "a waiter had the key at most %v after the release", worst)
}

func TestFault23SubscriptionsThatAreKilledAgainAndAgainAreNoPolling(t *testing.T) {
	begin(t)
	s := serve(t)
	direct := redistest.Client(t, s.Addr)
	const instances, span = 20, 2 * time.Second
	ctx, stop := context.WithCancel(t.Context())
	var turns atomic.Int64
	var wg sync.WaitGroup
	for range instances {
		g := on(t, s.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
		wg.Go(func() { // ends with stop
			for ctx.Err() == nil {
				_ = g.Do(ctx, key, func(context.Context) error { turns.Add(1); return nil })
			}
		})
	}
	during := func(fault func()) float64 {
		before, start := turns.Load(), time.Now()
		for ; time.Since(start) < span; time.Sleep(100 * time.Millisecond) {
			fault()
		}
		return float64(turns.Load()-before) / time.Since(start).Seconds()
	}
	rig.Eventually(t, "all wait", func() bool { return turns.Load() > 10*instances })
	quiet := during(func() {})
	killed := during(func() { direct.ClientKillByFilter(t.Context(), "TYPE", "pubsub") })
	stop()
	wg.Wait()
	if killed < quiet/10 { // a busy machine costs its share
		t.Errorf("%.0f turns/s while subscriptions are killed every 100 ms, %.0f before", killed, quiet)
	}
	keeps(t, "with subscriptions killed every 100 ms, %d instances took %.0f turns/s at one key, %.0f before",
		instances, killed, quiet)
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
		rig.Eventually(t, "the key is free", func() bool { return !has(t, rdb, key) })
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	keeps(t, "the function does not run, the key is released")
}
