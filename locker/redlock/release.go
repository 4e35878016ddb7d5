package redlock

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-lockguard/guard/locker"
)

// Release frees the key on all nodes at once, or each node hands it to the
// first claim in its queue. Release returns when a quorum has answered. A node
// that does not answer is asked again in the background. A claim that a quorum
// has handed the key to is told to try.
//
// With e.Queued, Release asks all nodes in the background, and returns at once.
// Each node has a list of its own, which is bounded and does not wait for the
// others.
func (l *Locker) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	b := l.ballot(c, false)
	if e.Queued {
		l.giveUp(b)
		return locker.Released{}, nil
	}
	var behind *ballot
	if e.Next != nil {
		behind = l.ballot(e.Next, true)
		l.known.add(behind, queueEnd())
	}
	answers := make(chan answer[locker.Released], len(l.nodes))
	seats := b.close(true)
	l.known.leave(b)
	var left atomic.Int32 // seats whose hold has not ended yet
	left.Store(int32(len(seats)))
	ended := func(of answer[locker.Released]) {
		if left.Add(-1) == 0 {
			l.known.drop(b) // for good, because it is over
		}
		answers <- of
	}
	for i, clean := range seats {
		if clean { // it owns nothing there, but may be queued
			l.nodes[i].clean(&b.seats[i].claim, b.seats[i].unclear)
			ended(answer[locker.Released]{seat: i, err: locker.ErrLeaseLost})
			continue
		}
		l.life.Go(func() { // ends with the node's limit
			r, err := l.free(ctx, b, behind, i)
			ended(answer[locker.Released]{i, r, err})
		})
	}
	var all locker.Released
	err := agree(ctx, l, answers, func(r locker.Released) {
		all.Waiting, all.Place = max(all.Waiting, r.Waiting), max(all.Place, r.Place)
		all.Queued = all.Queued || r.Queued
	})
	if err != nil {
		return locker.Released{}, err
	}
	return all, nil
}

// free releases seat i. It also queues the next claim there if it can get that
// claim's seat.
func (l *Locker) free(ctx context.Context, b, next *ballot, i int) (locker.Released, error) {
	n := l.nodes[i]
	limited, cancel := l.within(ctx, b.claim.TTL)
	defer cancel()
	if _, err := b.take(limited, i, true); err != nil {
		if b.disclaim(i) {
			n.clean(&b.seats[i].claim, true)
		}
		return locker.Released{}, err
	}
	var c *locker.Claim
	if next != nil {
		if _, err := next.take(limited, i, false); err == nil {
			c = &next.seats[i].claim
		}
	}
	r, err := n.store.Release(limited, &b.seats[i].claim, locker.End{Next: c})
	n.end(err)
	if b.finish(i) || err != nil && !errors.Is(err, locker.ErrLeaseLost) {
		n.clean(&b.seats[i].claim, true)
	}
	if c != nil && next.cast(i, true, locker.Answer{Queued: r.Queued}, asked(err)) == over {
		n.clean(c, true)
	}
	return r, err
}

// asked returns what the error of a Release says about the claim that it had to
// queue.
func asked(err error) error {
	if errors.Is(err, locker.ErrLeaseLost) {
		return nil
	}
	return err
}

// giveUp releases b on every node by owner id and takes it out of every queue,
// in the background. A node that may yet get a request of b is asked twice.
func (l *Locker) giveUp(b *ballot) {
	seats := b.close(false)
	l.known.drop(b) // for good, because it is over
	for i, clean := range seats {
		if s := &b.seats[i]; clean {
			l.nodes[i].clean(&s.claim, s.unclear)
		}
	}
}

// close ends the ballot. With heir, a Release cleans up the seats that may own
// the key, as soon as it has them. Without heir, the requests that have the
// busy seats clean those up. clean says which seats the caller must clean up in
// the background.
func (b *ballot) close(heir bool) (clean []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase = over
	clean = make([]bool, len(b.seats))
	for i := range b.seats {
		s := &b.seats[i]
		if heir {
			clean[i] = !s.busy && (s.dead || s.queued && !s.ours)
			s.heir = !clean[i]
		} else {
			clean[i] = !s.busy
		}
	}
	return clean
}
