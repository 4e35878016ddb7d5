package faults

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
)

// Faults right before or after a key was handed over.

const (
	handed    = 30               // keys that are handed over at once
	handedTTL = 10 * time.Second // the default
)

func keyOf(i int) string { return fmt.Sprint(key, i) }

// takeAll acquires all keys at once, and calls has with the result of each.
func takeAll(ctx context.Context, g *guard.Guard, has func(*guard.Lease, error)) {
	var wg sync.WaitGroup
	for i := range handed {
		wg.Go(func() { has(g.Acquire(ctx, keyOf(i))) })
	}
	wg.Wait()
}

// holdAll acquires the keys, one after another.
func holdAll(t *testing.T, g *guard.Guard) []*guard.Lease {
	t.Helper()
	ls := make([]*guard.Lease, handed)
	for i := range ls {
		ls[i] = acquire(t, g, keyOf(i))
	}
	return ls
}

func releaseAll(t *testing.T, ls []*guard.Lease) {
	t.Helper()
	var wg sync.WaitGroup
	for _, l := range ls {
		wg.Go(func() { mustRelease(t, l) })
	}
	wg.Wait()
}

// allQueued waits until each key has a waiter that can be told.
func allQueued(t *testing.T, p *place, rdb redis.UniversalClient, told int) {
	t.Helper()
	testguard.Eventually(t, "the waiter can be told", func() bool { return p.inboxes(t.Context()) == told })
	for i := range handed {
		testguard.Eventually(t, "a waiter is queued",
			func() bool { return rdb.ZCard(t.Context(), lock(keyOf(i))+":wait").Val() > 0 })
	}
}

func TestFault42APauseRightAfterAHandOverCostsNoLease(t *testing.T) {
	begin(t)
	pauses(t, oneServer(t), 600*time.Millisecond, time.Second)
}

func TestFault42APauseUnderSentinelCostsNoLease(t *testing.T) {
	begin(t)
	pauses(t, underSentinel(t), 600*time.Millisecond, time.Second)
}

// No node of a cluster knows whether a message has reached a process. So an
// offer lasts a second there, and a longer stop may cost the lease. The holder
// must know that when it goes on.
func TestFault42InACluster(t *testing.T) {
	begin(t)
	p := inACluster(t)
	const lasts = 400 * time.Millisecond
	stops(t, p, lasts)
	const long = 2500 * time.Millisecond
	kept, shared := stoppedTaker(t, p, long, true)
	if kept+shared > handed {
		t.Errorf("a client that stopped for %v: it kept %d of %d leases, and another had %d of its keys",
			long, kept, handed, shared)
	}
	keeps(t, "%s, where an offer lasts 1 s: none was lost in 3 stops of the servers (%v); a client that "+
		"stopped for %v "+
		"lost %d of %d, and knew it", p.name, lasts, long, handed-kept, handed)
}

// pauses hands keys over and stops the servers, or the process that has the
// keys, right afterwards.
func pauses(t *testing.T, p *place, servers ...time.Duration) {
	t.Helper()
	stops(t, p, servers...)
	clients := []time.Duration{time.Second, 2 * time.Second}
	for _, lasts := range clients {
		judged(t, func() string {
			kept, shared := stoppedTaker(t, p, lasts, false)
			if kept == handed && shared == 0 {
				return ""
			}
			return fmt.Sprintf("a client that stopped for %v right after the hand-over: it kept %d of %d, and another "+
				"had %d of its keys", lasts, kept, handed, shared)
		})
	}
	keeps(t, "%s: no lease of %d was lost or shared in %d stops of the server (up to %v) and %d of the "+
		"client (up to %v), TTL %v",
		p.name, handed, 3*len(servers), slices.Max(servers), len(clients), slices.Max(clients), handedTTL)
}

// stops stops the servers for each of the times, at several moments after a
// hand-over. No lease may be lost.
func stops(t *testing.T, p *place, times ...time.Duration) {
	t.Helper()
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 150 * time.Millisecond} {
		for _, lasts := range times {
			judged(t, func() string {
				lost := lostInAStop(t, p, after, lasts)
				if lost == 0 {
					return ""
				}
				return fmt.Sprintf("%d leases were lost when the servers stopped for %v, %v after the hand-over",
					lost, lasts, after)
			})
		}
	}
}

// lostInAStop hands all keys over and stops the servers a while after that. It
// returns the number of leases that this costs.
func lostInAStop(t *testing.T, p *place, after, lasts time.Duration) (lost int) {
	t.Helper()
	a := p.open(t, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
	b := p.open(t, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
	mine, told := holdAll(t, a), p.inboxes(t.Context())+1
	got := make(chan *guard.Lease, handed)
	go takeAll(t.Context(), b, func(l *guard.Lease, err error) { // ends when all have their key
		if err != nil {
			t.Errorf("Acquire: %v", err)
		}
		got <- l
	})
	allQueued(t, p, p.client(t), told)
	releaseAll(t, mine)
	time.Sleep(after)
	p.stop(t, lasts)
	var theirs []*guard.Lease
	for range handed {
		theirs = append(theirs, <-got)
	}
	time.Sleep(100 * time.Millisecond)
	for _, l := range theirs {
		if l.Context().Err() != nil {
			lost++
		}
		_ = l.Release(t.Context())
	}
	return lost
}

// stoppedTaker hands all keys over to a process that stops then, or as soon as
// it has them. It returns how many leases the process says that it has kept,
// and how many of its keys another had.
func stoppedTaker(t *testing.T, p *place, lasts time.Duration, has bool) (kept, shared int) {
	t.Helper()
	a := p.open(t, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
	mine, told := holdAll(t, a), p.inboxes(t.Context())+1
	taker := rig.Spawn(t, "taker", p.to)
	allQueued(t, p, p.client(t), told)
	releaseAll(t, mine)
	said := func() {
		for range handed {
			taker.Says("has")
		}
	}
	if has {
		said()
	}
	taker.Stop()
	goesOn := time.AfterFunc(lasts, func() { taker.Signal(syscall.SIGCONT) })
	defer goesOn.Stop()
	others := map[string]bool{}
	for start := time.Now(); time.Since(start) < lasts; time.Sleep(10 * time.Millisecond) {
		for i := range handed {
			if l, err := a.TryAcquire(t.Context(), keyOf(i)); err == nil {
				others[keyOf(i)] = true
				mustRelease(t, l)
			}
		}
	}
	if !has {
		said()
	}
	taker.Signal(syscall.SIGTERM)
	if _, err := fmt.Sscanf(taker.Says("kept"), "kept %d", &kept); err != nil {
		t.Fatal(err)
	}
	return kept, len(others)
}

// playTaker takes keys as soon as it can. When it is told to end, it says how
// many leases it has kept.
func playTaker(ctx context.Context, g *guard.Guard, say func(...any)) {
	terminated, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var kept atomic.Int64
	takeAll(ctx, g, func(l *guard.Lease, err error) {
		say("has", err)
		if err != nil {
			return
		}
		<-terminated.Done()
		if l.Err() == nil { // it looks at the clock, which the context may be behind
			kept.Add(1)
		}
	})
	say("kept", kept.Load())
}
