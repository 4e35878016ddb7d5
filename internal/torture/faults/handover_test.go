package faults

import (
	"context"
	"fmt"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/torture/faults/rig"
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

// inboxes returns the number of processes that can be told of a hand-over.
func inboxes(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	return len(rdb.PubSubChannels(t.Context(), "guard:inbox:*").Val())
}

// allQueued waits until each key has a waiter that can be told.
func allQueued(t *testing.T, rdb *redis.Client, told int) {
	t.Helper()
	rig.Eventually(t, "the waiter can be told", func() bool { return inboxes(t, rdb) == told })
	for i := range handed {
		rig.Eventually(t, "a waiter is queued",
			func() bool { return rdb.ZCard(t.Context(), lock(keyOf(i))+":wait").Val() > 0 })
	}
}

func TestFault42APauseRightAfterAHandOverCostsNoLease(t *testing.T) {
	begin(t)
	s := serve(t)
	direct := redistest.Client(t, s.Addr)
	stops := 0
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 150 * time.Millisecond} {
		for _, lasts := range []time.Duration{600 * time.Millisecond, time.Second} {
			a := on(t, s.Addr, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
			b := on(t, s.Addr, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
			mine, told := holdAll(t, a), inboxes(t, direct)+1
			var theirs []*guard.Lease
			got := make(chan *guard.Lease, handed)
			go takeAll(t.Context(), b, func(l *guard.Lease, err error) { // ends when all have their key
				if err != nil {
					t.Errorf("Acquire: %v", err)
				}
				got <- l
			})
			allQueued(t, direct, told)
			releaseAll(t, mine)
			time.Sleep(after)
			s.Stop()
			time.Sleep(lasts)
			s.Cont()
			for range handed {
				theirs = append(theirs, <-got)
			}
			time.Sleep(100 * time.Millisecond)
			for i, l := range theirs {
				if l.Context().Err() != nil {
					t.Errorf("lease %d was lost when the server stopped for %v, %v "+
						"after the hand-over", i, lasts, after)
				}
			}
			releaseAll(t, theirs)
			stops++
		}
	}
	for _, lasts := range []time.Duration{1200 * time.Millisecond, 2500 * time.Millisecond} {
		a := on(t, s.Addr, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
		mine, told := holdAll(t, a), inboxes(t, direct)+1
		p := rig.Spawn(t, "taker", s.Addr)
		allQueued(t, direct, told)
		releaseAll(t, mine)
		p.Stop()
		shared := 0
		for start := time.Now(); time.Since(start) < lasts; time.Sleep(10 * time.Millisecond) {
			for i := range handed {
				if l, err := a.TryAcquire(t.Context(), keyOf(i)); err == nil {
					shared++
					mustRelease(t, l)
				}
			}
		}
		_ = p.Cmd.Process.Signal(syscall.SIGCONT)
		for range handed {
			p.Says("has")
		}
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
		if kept := p.Says("kept"); kept != fmt.Sprint("kept ", handed) || shared > 0 {
			t.Errorf("a client that stopped for %v right after the hand-over: %s of %d, and %d times "+
				"another had its key",
				lasts, kept, handed, shared)
		}
		stops++
	}
	keeps(t, "no lease of %d was lost or shared in %d stops of the server (0.6 and 1 s) and of the client (1.2 and "+
		"2.5 s), TTL %v",
		handed, stops, handedTTL)
}

// playTaker takes keys as soon as it can. When it is told to end, it prints how
// many leases it has kept.
func playTaker(ctx context.Context, g *guard.Guard) {
	terminated, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var kept atomic.Int64
	takeAll(ctx, g, func(l *guard.Lease, err error) {
		fmt.Println("has", err)
		if err != nil {
			return
		}
		<-terminated.Done()
		if l.Context().Err() == nil {
			kept.Add(1)
		}
	})
	fmt.Println("kept", kept.Load())
}

func TestFault43WaitersThatDieInTheirFirstWaitCostOneShortOffer(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	const dead = 20
	living := make([]*guard.Guard, 4)
	for i := range living {
		living[i] = on(t, n.server.Addr, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
		warm(t, living[i])
	}
	held := acquire(t, living[0], key)
	ps := make([]*rig.Process, dead)
	for i := range ps {
		ps[i] = rig.Spawn(t, "waiter", n.server.Addr)
	}
	rig.Eventually(t, "all wait", func() bool { return n.direct.ZCard(t.Context(), lock(key)+":wait").Val() == dead })
	for _, p := range ps {
		_ = p.Cmd.Process.Kill()
	}
	rig.Eventually(t, "the server knows", func() bool { return inboxes(t, n.direct) <= len(living) })
	start := time.Now()
	var gaps turnGaps
	gaps.last = start
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, g := range living {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = g.Do(ctx, key, func(context.Context) error { gaps.turn(); return nil })
			}
		})
	}
	mustRelease(t, held)
	wg.Wait()
	cost := gaps.lost.Round(time.Millisecond)
	if cost > 1500*time.Millisecond+slow {
		t.Errorf("the dead cost %v, want 1.5 s at most", cost)
	}
	if gaps.turns == 0 {
		t.Error("nobody had a turn")
	}
	keeps(t, "%d processes killed in their first wait cost the others %v, all together", dead, cost)
}

// turnGaps adds up the time without a turn.
type turnGaps struct {
	mu    sync.Mutex // guards the fields below
	last  time.Time
	lost  time.Duration // in gaps of more than 200 ms
	turns int
}

func (g *turnGaps) turn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if gap := now.Sub(g.last); gap > 200*time.Millisecond {
		g.lost += gap
	}
	g.last = now
	g.turns++
}
