package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
)

// Processes that are killed while they wait.

func TestFault43WaitersThatDieInTheirFirstWaitCostOneShortOffer(t *testing.T) {
	begin(t)
	deadWaiters(t, oneServer(t))
}

func TestFault43DeadWaitersUnderSentinelCostOneShortOffer(t *testing.T) {
	begin(t)
	deadWaiters(t, underSentinel(t))
}

func TestFault43DeadWaitersInAClusterCostOneShortOffer(t *testing.T) {
	begin(t)
	deadWaiters(t, inACluster(t))
}

const dead = 20

// deadWaiters kills processes in their first wait for a key, and lets others
// take turns on it. The cost of the dead is judged by the time without a turn
// and by the queue. The rates of turns are reported. Only a thirtieth of them
// is demanded, because the machine may be busy with other tests. Waiters that
// are not told of their turn have a hundredth.
func deadWaiters(t *testing.T, p *place) {
	t.Helper()
	rdb := p.client(t)
	living := make([]*guard.Guard, 4)
	for i := range living {
		living[i] = p.open(t, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
		warm(t, living[i])
	}
	span := testsize.Pick(3*time.Second, time.Second)
	undisturbed := takeTurns(t, living, nil, span).rate(0, span)

	held := lasting(t, living[0])
	ps := make([]*rig.Process, dead)
	for i := range ps {
		ps[i] = rig.Spawn(t, "waiter", p.to)
	}
	queue := func() int { return int(rdb.ZCard(t.Context(), lock(key)+":wait").Val()) }
	testguard.Eventually(t, "all wait", func() bool { return queue() == dead })
	for _, p := range ps {
		p.Kill()
	}
	testguard.Eventually(t, "the server knows", func() bool { return p.inboxes(t.Context()) <= len(living) })
	began := time.Now()
	all := takeTurns(t, living, held, 5*time.Second+span)

	cost := all.lost().Round(time.Millisecond)
	if cost > 1500*time.Millisecond+slow && timed(t, began) {
		t.Errorf("the dead cost %v, want 1.5 s at most", cost)
	}
	if n := queue(); n > len(living) && steady(t, began) { // these may still be leaving
		t.Errorf("%d claims wait when the living do not any more", n)
	}
	soon := all.rate(0, 3*time.Second) / undisturbed
	late := all.rate(5*time.Second, 5*time.Second+span) / undisturbed
	if (soon < 0.03 || late < 0.03) && steady(t, began) {
		t.Errorf("%.0f %% of the turns in the first 3 s, and %.0f %% after 5 s", 100*soon, 100*late)
	}
	keeps(t, "%s: %d processes killed in their first wait cost the others %v, all together (%.0f %% of "+
		"the %.0f turns/s "+
		"without them in the first 3 s, %.0f %% after 5 s)", p.name, dead, cost, 100*soon, undisturbed, 100*late)
}

// lasting acquires the key with a lease that lasts while a busy machine stands
// still. One that was handed over begins shorter, with a second in a cluster.
func lasting(t *testing.T, g *guard.Guard) (l *guard.Lease) {
	t.Helper()
	testguard.Eventually(t, "a lease lasts", func() bool {
		for l = acquire(t, g, key); l.Err() == nil; time.Sleep(tick) {
			if time.Until(l.Deadline()) > 2*time.Second {
				return true
			}
		}
		_ = l.Release(t.Context())
		return false
	})
	return l
}

// turns are the times of turns on a key.
type turns struct {
	start time.Time

	mu sync.Mutex // guards at
	at []time.Duration
}

// takeTurns lets guards take turns on the key for that long. If there is a
// lease, it is released at the start.
func takeTurns(t *testing.T, gs []*guard.Guard, held *guard.Lease, span time.Duration) *turns {
	t.Helper()
	all := &turns{start: time.Now()}
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var wg sync.WaitGroup
	for _, g := range gs {
		wg.Go(func() { // ends with ctx
			for ctx.Err() == nil {
				_ = g.Do(ctx, key, func(context.Context) error { all.turn(); return nil })
			}
		})
	}
	if held != nil {
		mustRelease(t, held)
	}
	wg.Wait()
	return all
}

func (a *turns) turn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, time.Since(a.start))
}

// lost adds up the gaps of more than 200 ms between two turns.
func (a *turns) lost() (sum time.Duration) {
	last := time.Duration(0)
	for _, at := range a.at {
		if gap := at - last; gap > 200*time.Millisecond {
			sum += gap
		}
		last = at
	}
	return sum
}

// longest returns the longest time between two turns.
func (a *turns) longest() (gap time.Duration) {
	last := time.Duration(0)
	for _, at := range a.at {
		gap, last = max(gap, at-last), at
	}
	return gap
}

// rate returns the turns in a second from one time to another.
func (a *turns) rate(from, to time.Duration) float64 {
	n := 0
	for _, at := range a.at {
		if from <= at && at < to {
			n++
		}
	}
	return float64(n) / (to - from).Seconds()
}
