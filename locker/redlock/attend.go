package redlock

import (
	"context"
	"math/rand/v2"
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
		l.later(b, min(firstMiss<<min(missed, 20), max(b.claim.TTL/6, firstMiss)))
	}
}

// later makes l attend to b after the pause in. If b is due earlier already,
// nothing changes.
func (l *Locker) later(b *ballot, in time.Duration) {
	due := time.Now().Add(in)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.due.IsZero() && !due.Before(b.due) {
		return
	}
	b.due = due
	if b.timer != nil {
		b.timer.Reset(in)
		return
	}
	b.timer = time.AfterFunc(in, func() { // ends at once: attend does not block
		b.mu.Lock()
		b.due = time.Time{}
		b.mu.Unlock()
		if l.life.Enter() == nil {
			l.attend(b)
			l.life.Leave()
		}
	})
}

// attend does the work that is due for b. A holder takes the nodes that are
// missing, and a waiter tries. The life counts it.
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
	select {
	case l.picks <- struct{}{}:
	default:
		return false
	}
	if _, err := l.nodes[i].begin(); err != nil {
		<-l.picks
		return false
	}
	l.life.Go(func() { // ends with the node's limit
		defer func() { <-l.picks }()
		ctx, cancel := l.within(context.Background(), b.claim.TTL) //nolint:forbidigo // no caller waits for it
		defer cancel()
		_, _ = l.visit(ctx, b, i, locker.Try{Wait: true, Held: true, Place: 1})
	})
	return true
}
