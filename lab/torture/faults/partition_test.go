package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
)

// Networks that are cut, or slow.

func TestFault17AHolderCutOffStopsBeforeAnotherStarts(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	const ttl = 4 * time.Second
	var renewals renewed
	cut := on(t, n.Addr, guard.WithTTL(ttl), guard.WithObserver(&renewals))
	whole := on(t, n.server.Addr, guard.WithTTL(ttl), guard.WithMaxWait(long))
	l := acquire(t, cut, key)
	testguard.Eventually(t, "it is renewed", func() bool { return renewals.Load() > 0 })
	stopped := make(chan time.Time, 1)
	go func() { // ends with the lease
		<-l.Context().Done()
		stopped <- time.Now()
	}()
	began := time.Now()
	n.partition(true)
	next := acquire(t, whole, key)
	started := time.Now()
	before := started.Sub(<-stopped)
	if before <= 0 && steady(t, began) {
		t.Errorf("the next started %v before the holder had stopped", -before)
	}
	wantErr(t, l.Release(t.Context()), guard.ErrLeaseLost)
	mustRelease(t, next)
	n.partition(false)
	keeps(t, "stopped %v before the other started", before.Round(time.Millisecond))
}

// A hundred holders at a time are cut off at random moments between two
// renewals.
func TestFault17APartitionedHolderIsToldBeforeItsKeyExpires(t *testing.T) {
	begin(t)
	const ttl, holders = 4 * time.Second, 100 // a margin of 200 ms, because the machine may be busy
	n := newNetwork(t)
	rdb := redis.NewClient(&redis.Options{
		Addr: n.server.Addr, PoolSize: 4, MaxRetries: -1,
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	_, _ = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { p.Ping(t.Context()); return nil })

	injected, inTime := 0, 0
	least := ttl
	for injected < *partitions {
		g := on(t, n.Addr, guard.WithTTL(ttl))
		margins := make(chan time.Duration, holders)
		cutOff := make(chan struct{})
		var wg, held sync.WaitGroup
		held.Add(holders)
		for i := range holders {
			wg.Go(func() {
				time.Sleep(rand.N(ttl)) // renewals at any time
				l, err := g.Acquire(t.Context(), fmt.Sprint("p", injected, ":", i))
				held.Done()
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				<-cutOff
				if end, ok := keyEnd(t, rdb, l); ok {
					margins <- time.Until(end)
				}
				_ = l.Release(t.Context())
			})
		}
		held.Wait()
		time.Sleep(rand.N(ttl / 2))
		began := time.Now()
		n.partition(true)
		close(cutOff)
		wg.Wait()
		close(margins)
		for left := range margins {
			injected++
			if left > 0 || machine.since(began) > quite { // a process that does not run cannot be told
				inTime++
			}
			least = min(least, left)
		}
		n.partition(false)
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if inTime != injected {
		t.Errorf("%d of %d holders were told before their key expired; the latest %v after it",
			inTime, injected, -least)
	}
	keeps(t, "%d of %d holders that were cut off were told before their keys could end, the last of them %v "+
		"before (TTL %v)",
		inTime, injected, least, ttl)
}

// keyEnd waits until the context of l has ended, and returns the time at which
// the key of l ends. The server itself tells that time, by the clock that it
// shares with this process. The key is not renewed any more. On a busy machine
// the answer may come when the key has ended.
func keyEnd(t *testing.T, rdb *redis.Client, l *guard.Lease) (end time.Time, ok bool) {
	t.Helper()
	at, err := rdb.PExpireTime(t.Context(), lock(l.Key())).Result()
	if err != nil || at <= 0 && at != -2 {
		t.Errorf("PEXPIRETIME: %v, %v", at, err)
	}
	<-l.Context().Done()
	return time.UnixMilli(at.Milliseconds()), at > 0
}

func TestFault18ASlowServerCostsNoLease(t *testing.T) {
	begin(t)
	const ttl = 6 * time.Second
	n := newNetwork(t, "--enable-debug-command", "yes")
	var renewals renewed
	g := on(t, n.Addr, guard.WithTTL(ttl), guard.WithMaxWait(long), guard.WithObserver(&renewals))
	warm(t, g)
	jitter, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop
		for jitter.Err() == nil {
			n.DelayReplies(200*time.Millisecond + rand.N(200*time.Millisecond))
			time.Sleep(50 * time.Millisecond)
		}
	})
	l := acquire(t, g, key)
	renewals.await(t, l, "replies after 200 to 400 ms")
	stop()
	wg.Wait()
	n.DelayReplies(0)
	if err := n.direct.Do(t.Context(), "debug", "sleep", "1").Err(); err != nil {
		t.Fatal(err)
	}
	n.server.Stop()
	time.Sleep(time.Second)
	n.server.Cont()
	renewals.await(t, l, "a stopped server")
	mustRelease(t, l)

	short := g.With(guard.WithTTL(time.Second))
	n.DelayReplies(300 * time.Millisecond)
	err := short.Check(t.Context())
	n.DelayReplies(0)
	if err == nil || !strings.Contains(err.Error(), "round trip") {
		t.Errorf("Check with a round trip of 300 ms in a TTL of a second: %v", err)
	}
	keeps(t, "no lease lost with a TTL of %v; `Check` says if the TTL is too short for the round trip", ttl)
}

func TestFault19APausedServerBoundsTheWait(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	const wait = 300 * time.Millisecond
	g := on(t, n.server.Addr, guard.WithTTL(2*time.Second), guard.WithMaxWait(wait))
	warm(t, g)
	for _, mode := range []string{"WRITE", "ALL"} {
		began := time.Now()
		held := acquire(t, eager(g), mode)
		left := n.direct.PTTL(t.Context(), lock(mode)).Val()
		if err := n.direct.Do(t.Context(), "client", "pause", 4000, mode).Err(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		wantErr(t, g.Do(t.Context(), key, nop), guard.ErrUnavailable)
		took(t, "a wait of 300 ms", start, 500*time.Millisecond+slow)
		lost(t, held, long)
		if at := time.Since(start); at >= left && steady(t, began) {
			t.Errorf("the holder was told %v after the pause began, and the key could expire after %v", at, left)
		}
		if mode == "WRITE" { // reads are answered: the key expires logically
			testguard.Eventually(t, "the key is seen to expire",
				func() bool { return n.direct.PTTL(t.Context(), lock(mode)).Val() == -2 })
		}
		_ = held.Release(t.Context())
		if err := n.direct.Do(t.Context(), "client", "unpause").Err(); err != nil {
			t.Fatal(err)
		}
		testguard.Eventually(t, "nothing is left",
			func() bool { return !has(t, n.direct, key) && !has(t, n.direct, mode) })
	}
	keeps(t, "`ErrUnavailable` after its wait; the holder is told before its key can expire")
}
