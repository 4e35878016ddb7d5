package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const rounds = 4 // of votes in one Acquire, if they are split and this claim is in front

// Acquire asks all nodes at once and succeeds if a quorum makes c the owner,
// early enough before the first of their TTLs can end. It costs the time of one
// request to the slowest node of the fastest quorum, with c.Fencing of two.
// Votes that are not enough are given back before it returns. Where votes are
// split, who is in front keeps his, and asks again after a random pause;
// everybody else gives theirs back. It returns [locker.ErrInvalidOption] for a
// TTL longer than the hold-out.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Answer{}, err
	}
	defer l.gate.Leave()
	if err := l.fits(c.TTL); err != nil {
		return locker.Answer{}, err
	}
	b := l.ballot(c, true)
	if t.Queued {
		// and is put back where a node has granted it in vain, but not if it
		// has gone everywhere (law 2)
		t.Wait = b.waits()
	}
	if ctx.Err() != nil {
		return locker.Answer{Queued: t.Wait}, unclear(context.Cause(ctx))
	}
	if t.Wait {
		l.known.add(b, queueEnd())
	}
	for round := 1; ; round++ {
		sent := time.Now()
		b.turn(seeking)
		votes := l.poll(ctx, b, t)
		if len(votes.ours) >= l.quorum {
			return l.win(ctx, b, t, votes, sent)
		}
		if round == rounds || !votes.leads(b.self, l.quorum) || !pause(ctx, time.Since(sent)) {
			return l.lose(ctx, b, t, votes)
		}
		t.Held = false // what is ours is seen in one request so
	}
}

// pause waits for up to two round trips, at random so that those who wait do
// not meet again. It reports false if ctx ended.
func pause(ctx context.Context, trip time.Duration) bool {
	timer := time.NewTimer(rand.N(2*min(trip, 20*time.Millisecond) + 1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// poll asks all nodes and returns when the answers decide, or all are in.
// Requests that are left end by themselves.
func (l *Locker) poll(ctx context.Context, b *ballot, t locker.Try) *tally {
	votes := newTally(l)
	answers := make(chan vote, len(l.nodes))
	for i, n := range l.nodes {
		probe, err := n.begin()
		if err != nil {
			votes.count(vote{seat: i, err: err})
			continue
		}
		votes.wait(probe, 1)
		l.gate.Go(func() { // ends with the node's limit
			a, err := l.ask(ctx, b, i, t)
			answers <- vote{i, a, err, probe}
		})
	}
	for !votes.decided() {
		select {
		case v := <-answers:
			votes.wait(v.probe, -1)
			votes.count(v)
		case <-ctx.Done():
			votes.unknown = append(votes.unknown, context.Cause(ctx))
			return votes
		}
	}
	return votes
}

// ask sends an Acquire for a seat, when an earlier request has ended.
func (l *Locker) ask(ctx context.Context, b *ballot, i int, t locker.Try) (locker.Answer, error) {
	limited, cancel := l.within(ctx, b.claim.TTL)
	defer cancel()
	granted, err := b.take(limited, i, false)
	if err != nil {
		l.nodes[i].skip()
		return locker.Answer{}, err
	}
	return l.visit(limited, b, i, locker.Try{Wait: t.Wait, Held: (t.Held || t.Queued) && !granted, Place: t.Place})
}

// visit sends an Acquire for a seat that was taken, and does what its answer
// asks for.
func (l *Locker) visit(limited context.Context, b *ballot, i int, t locker.Try) (locker.Answer, error) {
	n, s := l.nodes[i], &b.seats[i]
	a, err := n.store.Acquire(limited, &s.claim, t)
	n.end(err)
	switch b.cast(i, t.Wait, a, err) {
	case idle:
		l.giveBack(limited, b, i)
	case over:
		n.store.Abandon(&s.claim, true)
	default:
		if !a.Acquired {
			l.pickUp(b)
		}
	}
	return a, err
}

// giveBack releases the vote of a seat that was taken. If that has no answer
// nothing that the node says of this owner id can be trusted any more.
func (l *Locker) giveBack(ctx context.Context, b *ballot, i int) {
	n, s := l.nodes[i], &b.seats[i]
	limited, cancel := l.within(ctx, b.claim.TTL)
	defer cancel()
	_, err := n.store.Release(limited, &s.claim, nil)
	if b.returned(i, err == nil || errors.Is(err, locker.ErrLeaseLost)) {
		n.store.Abandon(&s.claim, true)
	}
}

// win makes c the owner, if there is time enough left: the nodes whose votes
// were counted are more than can be lost.
func (l *Locker) win(ctx context.Context, b *ballot, t locker.Try, votes *tally,
	sent time.Time,
) (locker.Answer, error) {
	a := locker.Answer{Acquired: true}
	b.won(sent.Add(l.settings.limit))
	ttl := b.claim.TTL
	err := error(nil)
	if b.claim.Fencing {
		a.Token = votes.token
		_, err = l.reserve(ctx, b, votes.token)
	}
	if took := time.Since(sent); err == nil && took >= ttl-drift(ttl) {
		err = unclear(fmt.Errorf("a quorum answered after %v, too late for a TTL of %v", took, ttl))
	}
	if err != nil {
		l.retire(ctx, b)
		return locker.Answer{Queued: t.Wait}, unclear(err)
	}
	l.known.hold(b, sent.Add(ttl))
	l.pickUp(b)
	return a, nil
}

// drift is how much faster than ours the clocks of nodes may run, over a TTL.
func drift(ttl time.Duration) time.Duration { return max(ttl/100, 2*time.Millisecond) }

// lose gives back what votes there are and answers for them.
func (l *Locker) lose(ctx context.Context, b *ballot, t locker.Try, votes *tally) (locker.Answer, error) {
	l.retire(ctx, b)
	switch {
	case votes.reached():
		a := votes.answer()
		a.Queued = t.Wait && b.waits()
		if !a.Queued {
			a.Place = 0
		}
		return a, nil
	case len(votes.refused) > len(l.nodes)-l.quorum:
		return locker.Answer{}, fmt.Errorf("redlock: %w", reasons(votes.refused))
	}
	return locker.Answer{Queued: t.Wait}, l.noQuorum(len(votes.ours)+votes.held,
		slices.Concat(votes.unknown, votes.refused))
}

// retire gives back what votes there are, and waits for that until ctx ends.
func (l *Locker) retire(ctx context.Context, b *ballot) {
	back := b.retire()
	if len(back) == 0 {
		return
	}
	done := make(chan struct{}, len(back))
	for _, i := range back {
		l.gate.Go(func() { // ends with the node's limit
			l.giveBack(ctx, b, i)
			done <- struct{}{}
		})
	}
	for range back {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}
