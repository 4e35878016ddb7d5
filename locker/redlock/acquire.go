package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// rounds is the max number of votes in one Acquire. There is more than one if
// the votes are split and this claim is in the lead.
const rounds = 4

// Acquire asks all nodes at once. It succeeds if a quorum makes c the owner
// early enough before the first of their TTLs can end. It takes as long as one
// request to the slowest node of the fastest quorum, or two requests with
// c.Fencing.
//
// If the votes are not enough, Acquire gives them back before it returns. If
// the votes are split, the claim in the lead keeps its votes and asks again
// after a random pause. All others give theirs back. Acquire returns
// [locker.ErrInvalidOption] for a TTL longer than the restart delay.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Answer{}, err
	}
	defer l.life.Leave()
	if err := l.fits(c.TTL); err != nil {
		return locker.Answer{}, err
	}
	b := l.ballot(c, true)
	if t.Queued {
		// A claim that a node has granted in vain is queued again. A claim that
		// has left every queue is not (law 2).
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
		// Without Held, one request is enough to see that a key is ours.
		t.Held = false
	}
}

// pause waits for up to two round trips. The length is random, so that two
// waiting claims do not meet again. It reports false if ctx ended.
func pause(ctx context.Context, trip time.Duration) bool {
	return lockerkit.Pause(rand.N(2*min(trip, 20*time.Millisecond)+1), ctx.Done())
}

// poll asks all nodes. It returns when the answers decide, or when all are in.
// The requests that are left end by themselves.
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
		l.life.Go(func() { // ends with the node's limit
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
			votes.pending, votes.probes = 0, 0 // they did not answer in time
			return votes
		}
	}
	return votes
}

// ask sends an Acquire for a seat as soon as an earlier request has ended.
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

// visit sends an Acquire for a seat that was taken. It then acts on the answer.
func (l *Locker) visit(limited context.Context, b *ballot, i int, t locker.Try) (locker.Answer, error) {
	n, s := l.nodes[i], &b.seats[i]
	a, err := n.store.Acquire(limited, &s.claim, t)
	if l.again(limited, err) {
		b.doubt(i)
		a, err = n.store.Acquire(limited, &s.claim, t)
	}
	n.end(err)
	switch b.cast(i, t.Wait, a, err) {
	case idle:
		l.giveBack(limited, b, i)
	case over:
		n.clean(&s.claim, true)
	default:
		if !a.Acquired {
			l.pickUp(b)
		}
	}
	return a, err
}

// again reports whether a node is asked once more. Its redislocker has given up
// early, because it had a connection that may have been forgotten on its way.
// Both requests together have the limit of one.
func (l *Locker) again(limited context.Context, err error) bool {
	end, _ := limited.Deadline()
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout() && time.Until(end) > l.settings.limit/4
}

// giveBack releases the vote of a seat that was taken. If the release has no
// answer, nothing that the node says of this owner id can be trusted any more.
func (l *Locker) giveBack(ctx context.Context, b *ballot, i int) {
	n, s := l.nodes[i], &b.seats[i]
	limited, cancel := l.within(ctx, b.claim.TTL)
	defer cancel()
	_, err := n.store.Release(limited, &s.claim, locker.End{})
	if b.returned(i, err == nil || errors.Is(err, locker.ErrLeaseLost)) {
		n.clean(&s.claim, true)
	}
}

// win makes c the owner if enough time is left. The counted votes come from
// more nodes than can be lost.
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

// drift is how much the clocks of nodes may gain on ours over a TTL.
func drift(ttl time.Duration) time.Duration { return max(ttl/100, 2*time.Millisecond) }

// lose gives back the votes of b and returns the answer for them.
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
		return locker.Answer{Queued: true}, fmt.Errorf("redlock: %w", reasons(votes.refused)) // the claim is given up
	}
	return locker.Answer{Queued: t.Wait}, l.noQuorum(len(votes.ours)+votes.held, votes.pending+votes.probes,
		slices.Concat(votes.unknown, votes.refused))
}

// retire gives back the votes of b. It waits for that until ctx ends.
func (l *Locker) retire(ctx context.Context, b *ballot) {
	back := b.retire()
	if len(back) == 0 {
		return
	}
	done := make(chan struct{}, len(back))
	for _, i := range back {
		l.life.Go(func() { // ends with the node's limit
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
