package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
)

// Servers that forget, refuse, or have no room.

func TestFault04AServerThatForgetsScriptsCostsNoCall(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	var renewals renewed
	g := on(t, n.server.Addr, guard.WithTTL(4*time.Second), guard.WithFencing(), guard.WithObserver(&renewals))
	warm(t, g)
	flushing, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var calls, flushes atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			for flushing.Err() == nil {
				err := g.Do(t.Context(), fmt.Sprint(key, i), func(context.Context) error {
					time.Sleep(2 * time.Millisecond)
					return nil
				})
				if err != nil {
					t.Errorf("Do: %v", err)
				}
				calls.Add(1)
			}
		})
	}
	l := acquire(t, g, "renewed")
	testguard.Eventually(t, "many calls, flushes and a renewal", func() bool {
		n.direct.ScriptFlush(t.Context())
		return flushes.Add(1) >= 200 && calls.Load() >= 50 && renewals.Load() > 0
	})
	stop()
	wg.Wait()
	mustRelease(t, l)
	keeps(t, "%d calls while the scripts were flushed %d times: no error", calls.Load(), flushes.Load())
}

func TestFault07ARefusalThatStaysIsToldAtOnce(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	client := func(user, password string) *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: n.server.Addr, Username: user, Password: password})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	command(t, n.direct, "acl", "setuser", "reader", "on", ">pw", "~*", "&*", "+@all", "-evalsha", "-eval")
	command(t, n.direct, "acl", "setuser", "mute", "on", ">pw", "~*", "&*", "+@all", "-publish")
	n.direct.LPush(t.Context(), lock("list"), "x")
	n.direct.Expire(t.Context(), lock("list"), time.Minute)
	for code, rdb := range map[string]*redis.Client{
		"NOPERM": client("reader", "pw"), "WRONGPASS": client("reader", "wrong"), "WRONGTYPE": n.direct,
	} {
		g := newGuard(t, rdb, guard.WithTTL(long), guard.WithMaxWait(long))
		start := time.Now()
		err := g.Do(t.Context(), "list", nop)
		took(t, code, start, 5*time.Second)
		if err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%v, want one that says %s", err, code)
		}
	}
	if n.direct.LLen(t.Context(), lock("list")).Val() != 1 {
		t.Error("a key of another type was touched")
	}

	a, b := newGuard(t, client("mute", "pw"), guard.WithTTL(long)), newGuard(t, n.direct, guard.WithTTL(long))
	l := acquire(t, a, key)
	got := waits(t, b)
	queued(t, n.direct)
	start := time.Now()
	mustRelease(t, l) // without the right to publish
	mustRelease(t, <-got)
	took(t, "a hand-over without the right to tell of it", start, poll)
	keeps(t, "an error at once that says what to change; without the right to publish, a waiter looks by itself")
}

func TestFault27AnEvictedLeaseIsLostAndCheckWarns(t *testing.T) {
	begin(t)
	n := newNetwork(t, "--maxmemory", "4mb", "--maxmemory-policy", "volatile-ttl")
	g := on(t, n.server.Addr, guard.WithTTL(6*time.Second))
	if err := g.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("Check: %v, want it to say what to change", err)
	}
	l := acquire(t, g, key)
	filler := strings.Repeat("x", 1000)
	for i := 0; has(t, n.direct, key); i++ {
		pipe := n.direct.Pipeline()
		for j := range 100 {
			pipe.Set(t.Context(), fmt.Sprint("filler", i, ":", j), filler, time.Hour)
		}
		_, _ = pipe.Exec(t.Context())
		if i > 1000 {
			t.Fatal("nothing was evicted")
		}
	}
	gone := time.Now()
	d := lostByRenewal(t, l, gone)
	_ = l.Release(t.Context())
	keeps(t, "`Check` says what to change; a lease whose key was evicted was lost %v later", d)
}

func TestFault28AHolderRenewsAndReleasesWithoutMemory(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	var renewals renewed
	g := on(t, n.server.Addr, guard.WithTTL(4*time.Second), guard.WithMaxWait(100*time.Millisecond),
		guard.WithObserver(&renewals))
	l := acquire(t, eager(g), key)
	command(t, n.direct, "config", "set", "maxmemory", "1")
	wantErr(t, g.Do(t.Context(), "another", nop), guard.ErrUnavailable)
	before := renewals.Load()
	testguard.Eventually(t, "it was renewed some times", func() bool { return renewals.Load() >= before+2 })
	mustRelease(t, l)
	isFree(t, n.direct, key)
	keeps(t, "acquiring: `ErrUnavailable`; leases are renewed and released as always")
}

func TestFault29ADeletedKeyIsNoticedAndNotMadeAgain(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	const ttl = 6 * time.Second
	var worst time.Duration
	g := on(t, n.server.Addr, guard.WithTTL(ttl))
	for _, how := range [][]any{{"flushall"}, {"del", lock(key)}, {"flushall"}, {"unlink", lock(key)}} {
		l := acquire(t, g, key)
		command(t, n.direct, how...)
		start := time.Now()
		worst = max(worst, lostByRenewal(t, l, start))
		if has(t, n.direct, key) {
			t.Error("the key was made again")
		}
		_ = l.Release(t.Context())
	}
	keeps(t, "`ErrLeaseLost` at the next renewal, %v later at most (TTL %v); the key stays away", worst, ttl)
}

func TestFault30ARestartIsSurvivedOrNoticed(t *testing.T) {
	begin(t)
	const ttl = 8 * time.Second
	var renewals renewed
	opts := []guard.Option{
		guard.WithTTL(ttl), guard.WithFencing(), guard.WithMaxWait(long), guard.WithObserver(&renewals),
	}

	bare := serve(t)
	g := on(t, bare.Addr, opts...)
	a := acquire(t, g, key)
	last := token(t, a)
	bare.Restart() // kill -9 and without a memory
	lost(t, a, long)
	b := acquire(t, g, key)
	if token(t, b) <= last {
		t.Error("the token fell")
	}
	_ = a.Release(t.Context())
	mustRelease(t, b)

	kept := serve(t, "--appendonly", "yes", "--appendfsync", "everysec")
	g = on(t, kept.Addr, opts...)
	l := acquire(t, g, key)
	kept.Restart() // writes are in the kernel's pages, not on the disk, so kill -9 costs nothing
	renewals.await(t, l, "a restart with its data")
	if !has(t, redistest.Client(t, kept.Addr), key) {
		t.Error("the key has gone")
	}
	last = token(t, l)
	kept.Kill()
	logs, _ := filepath.Glob(filepath.Join(kept.Dir, "appendonlydir", "*.incr.aof"))
	if len(logs) == 0 {
		t.Fatal("no log of writes")
	}
	for _, log := range logs { // as a loss of power would
		if err := os.Truncate(log, 0); err != nil {
			t.Fatal(err)
		}
	}
	kept.Restart()
	lost(t, l, long)
	_ = l.Release(t.Context())
	next := acquire(t, g, key)
	if token(t, next) <= last {
		t.Error("the token fell")
	}
	mustRelease(t, next)
	keeps(t, "with its data: no lease lost; without: `ErrLeaseLost`, and the next token is higher")
}
