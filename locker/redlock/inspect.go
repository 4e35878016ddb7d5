package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/go-lockguard/guard/locker"
)

// Held reports on how many nodes this locker holds key, and how many nodes
// there are. It asks nobody, and goes by the last answers of the nodes. held is
// between a quorum and all of them, or 0 if the locker does not own the key.
//
// Held is for monitoring. A key on a bare quorum has two owners as soon as one
// of these nodes forgets it, so alert if held stays below nodes. Held is safe
// for concurrent use.
func (l *Locker) Held(key string) (held, nodes int) {
	if l.nodes == nil {
		return 0, len(l.settings.nodes)
	}
	if b := l.known.owner(key); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		held = b.held()
	}
	return held, len(l.nodes)
}

// Inspect tells who holds key on a quorum of nodes. It does not report a holder
// with less than a quorum. It also tells who waits in the longest queue, in the
// order that most of these queues have.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	s := locker.KeyState{Key: key}
	states := make([]locker.KeyState, len(l.nodes))
	errs, err := l.everywhere(ctx, func(ctx context.Context, n *node) (err error) {
		states[n.number-1], err = n.store.Inspect(ctx, key)
		return err
	})
	if err != nil {
		return s, err
	}
	said := make([]*locker.KeyState, len(l.nodes)) // nil without an answer
	votes := make(map[string]int)
	for i := range states {
		if errs[i] != nil {
			continue
		}
		said[i] = &states[i]
		if n := &states[i]; n.Held {
			votes[n.Owner]++
			if votes[n.Owner] == l.quorum {
				s.Held, s.Owner, s.Holder, s.Remaining = true, n.Owner, n.Holder, n.Remaining
			}
		}
	}
	s.Waiting, s.Waiters = l.queue(said)
	if i := slices.IndexFunc(s.Waiters, func(w locker.Waiter) bool { return s.Held && w.Owner == s.Owner }); i >= 0 {
		s.Waiters, s.Waiting = slices.Delete(s.Waiters, i, i+1), s.Waiting-1 // queued at a node that it lacks
	}
	return s, nil
}

// queue returns the claims that wait at any of the nodes. A claim has the place
// that a quorum gives it, because claims may reach a late node in another
// order. Those that fewer nodes have come last.
func (l *Locker) queue(said []*locker.KeyState) (waiting int, waiters []locker.Waiter) {
	places := make(map[string][]int) // of each owner, the best first
	for i, n := range said {
		if n == nil {
			continue
		}
		waiting = max(waiting, n.Waiting)
		for place, w := range n.Waiters {
			of := places[w.Owner]
			if of == nil {
				of = slices.Repeat([]int{math.MaxInt}, len(said))
				places[w.Owner], waiters = of, append(waiters, w)
			}
			of[i] = place
		}
	}
	for _, of := range places {
		slices.Sort(of)
	}
	slices.SortStableFunc(waiters, func(a, b locker.Waiter) int {
		a1, b1 := places[a.Owner], places[b.Owner]
		return cmp.Or(cmp.Compare(a1[l.quorum-1], b1[l.quorum-1]), cmp.Compare(a1[0], b1[0]))
	})
	return max(waiting, len(waiters)), waiters[:min(len(waiters), locker.MaxListed)]
}

// everywhere calls ask for every node at once and returns the error of each. It
// returns an error of its own if no quorum has answered.
func (l *Locker) everywhere(ctx context.Context, ask func(ctx context.Context, n *node) error) ([]error, error) {
	if err := l.life.Enter(); err != nil {
		return nil, err
	}
	defer l.life.Leave()
	limited, cancel := context.WithTimeout(ctx, l.settings.limit)
	defer cancel()
	well := 0
	errs := l.everyNode(func(n *node) error { return ask(limited, n) })
	for i, err := range errs {
		if err == nil || !errors.Is(err, locker.ErrUnavailable) {
			well++
		}
		if err != nil {
			errs[i] = l.nodes[i].of(err)
		}
	}
	if well < l.quorum {
		return errs, l.noQuorum(well, 0, present(errs))
	}
	return errs, nil
}

// List lists the keys of every node. For each key it yields the state on which
// a quorum agrees. A node that cannot be listed is skipped as long as the
// others are a quorum, because every lease is on one of those.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		yielded := make(map[string]bool)
		var failed []error
	nodes:
		for i := range l.nodes {
			for n, err := range l.nodes[i].store.List(ctx) {
				if err != nil && n.Key == "" {
					failed = append(failed, err)
					continue nodes
				}
				if yielded[n.Key] {
					continue
				}
				s, err := l.Inspect(ctx, n.Key)
				if err == nil && !s.Held && s.Waiting == 0 {
					continue // gone meanwhile
				}
				if yielded[n.Key] = true; !yield(s, err) {
					return
				}
			}
		}
		if len(failed) > len(l.nodes)-l.quorum {
			yield(locker.KeyState{}, reasons(failed))
		}
	}
}

// ForceRelease ends the hold of owner on every node. It succeeds if owner had a
// quorum.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	errs, err := l.everywhere(ctx, func(ctx context.Context, n *node) error {
		return n.store.ForceRelease(ctx, key, owner)
	})
	if err != nil {
		return err
	}
	released := 0
	for _, err := range errs {
		switch {
		case err == nil:
			released++
		case !errors.Is(err, locker.ErrLeaseLost) && !errors.Is(err, locker.ErrUnavailable):
			return err
		}
	}
	if released < l.quorum {
		return fmt.Errorf("redlock: %w: that owner does not hold the key on a quorum", locker.ErrLeaseLost)
	}
	return nil
}
