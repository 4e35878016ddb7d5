package redlock

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const (
	firstMiss = 5 * time.Millisecond // pause before missing nodes are asked again
	mostPicks = 16                   // max requests of that kind in flight
)

// soon is the pause before a claim tries if not all nodes agree on it. By then
// the messages of the nodes have come. The pause is random, so that two claims
// do not try at the same time.
func soon() time.Duration { return 5*time.Millisecond + rand.N(10*time.Millisecond) }

// pickUp schedules another request to the nodes that b does not hold. It does
// so only if b holds its key.
func (l *Locker) pickUp(b *ballot) {
	b.mu.Lock()
	wanted, missed := false, b.missed
	for i := range b.seats {
		if s := &b.seats[i]; b.phase == holding && !s.ours && !s.busy && !s.dead {
			wanted = true
		}
	}
	b.mu.Unlock()
	if wanted {
		l.agenda.add(b, min(firstMiss<<min(missed, 20), max(b.claim.TTL/6, firstMiss)))
	}
}

// attend does the work that is due for b. A holder takes the nodes that are
// missing, and a waiter tries.
func (l *Locker) attend(b *ballot) {
	switch {
	case b.is(over):
		return
	case !b.is(holding):
		l.waker.Wake(b.claim.Key)
		return
	case !l.known.fresh(b):
		return // its lease has ended, so no node may be added to it
	}
	for _, i := range b.missing(l.quorum) {
		if !l.reach(b, i) {
			if b.leave(i) {
				l.nodes[i].clean(&b.seats[i].claim, true)
			}
			l.pickUp(b)
		}
	}
}

// reach begins to take a node for a holder, from the front of the node's queue.
// It returns false if that is not possible now.
func (l *Locker) reach(b *ballot, i int) bool {
	if l.gate.Enter() != nil {
		return false
	}
	defer l.gate.Leave()
	select {
	case l.picks <- struct{}{}:
	default:
		return false
	}
	if _, err := l.nodes[i].begin(); err != nil {
		<-l.picks
		return false
	}
	l.gate.Go(func() { // ends with the node's limit
		defer func() { <-l.picks }()
		ctx, cancel := l.within(context.Background(), b.claim.TTL) //nolint:forbidigo // no caller waits for it
		defer cancel()
		_, _ = l.visit(ctx, b, i, locker.Try{Wait: true, Held: true, Place: 1})
	})
	return true
}

// agenda has the ballots that need work later. It runs one goroutine, and only
// while it has any.
type agenda struct {
	act func(*ballot) // does not block

	// mu guards the fields below and the field due of the ballots. It is never
	// held across act.
	mu      sync.Mutex
	ballots byDue         // each at most once
	wake    chan struct{} // holds one; sent when an earlier one was added, or at close
	closed  bool
	done    chan struct{} // closed when the goroutine ends; nil if there is none
}

func newAgenda(act func(*ballot)) *agenda {
	return &agenda{act: act, wake: make(chan struct{}, 1)}
}

// add schedules b to be attended to after the pause in. If b is due earlier
// already, nothing changes.
func (a *agenda) add(b *ballot, in time.Duration) {
	due := time.Now().Add(in)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed || !b.due.IsZero() && !due.Before(b.due):
		return
	case b.due.IsZero():
		b.due = due
		heap.Push(&a.ballots, b)
	default:
		b.due = due
		heap.Fix(&a.ballots, b.place)
	}
	if a.done == nil {
		a.done = make(chan struct{})
		go a.run(a.done) // ends when nothing is due any more
	}
	if a.ballots[0] == b {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

func (a *agenda) run(done chan struct{}) {
	defer close(done)
	for {
		b, pause, ok := a.next()
		switch {
		case !ok:
			return
		case b != nil:
			a.act(b)
		default:
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-a.wake:
			}
			timer.Stop()
		}
	}
}

// next returns the ballot that is due now, or the pause until one is due. If ok
// is false, the goroutine must end.
func (a *agenda) next() (b *ballot, pause time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.ballots) == 0 {
		a.done = nil
		return nil, 0, false
	}
	if pause = time.Until(a.ballots[0].due); pause > 0 {
		return nil, pause, true
	}
	b = heap.Pop(&a.ballots).(*ballot)
	b.due = time.Time{}
	return b, 0, true
}

// close ends the goroutine and waits for it.
func (a *agenda) close() {
	a.mu.Lock()
	a.closed = true
	done := a.done
	select {
	case a.wake <- struct{}{}:
	default:
	}
	a.mu.Unlock()
	if done != nil {
		<-done
	}
}

// byDue is a heap of ballots, the earliest first.
type byDue []*ballot

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, k int) bool { return h[i].due.Before(h[k].due) }
func (h byDue) Swap(i, k int)      { h[i], h[k], h[i].place, h[k].place = h[k], h[i], k, i }

// Push implements [heap.Interface].
func (h *byDue) Push(x any) {
	b := x.(*ballot)
	b.place = len(*h)
	*h = append(*h, b)
}

// Pop implements [heap.Interface].
func (h *byDue) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return b
}
