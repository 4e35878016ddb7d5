package memlocker

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var _ locker.Inspector = (*Locker)(nil)

// Inspect returns the owner of key and the claims that wait for it.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return locker.KeyState{Key: key}, err
	}
	return l.store.inspect(key, now), nil
}

// List returns the state of every key that is owned or waited for, in the order
// of their names.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		names, err := l.names(ctx)
		if err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		for _, name := range names {
			s, err := l.Inspect(ctx, name)
			if err != nil {
				yield(locker.KeyState{}, err)
				return
			}
			if (s.Held || s.Waiting > 0) && !yield(s, nil) {
				return
			}
		}
	}
}

func (l *Locker) names(ctx context.Context) ([]string, error) {
	_, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(l.store.keys))
	for name := range l.store.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// ForceRelease ends the hold of owner on key, hands the key on, and tells the
// owner's guard.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if len(owner) != locker.OwnerLen {
		return fmt.Errorf("memlocker: %w: an owner id has %d characters", locker.ErrInvalidOption, locker.OwnerLen)
	}
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return err
	}
	e := l.store.keys[key]
	if e == nil || !e.held(now) || e.owner != owner {
		return fmt.Errorf("memlocker: %w: that owner does not hold the key", locker.ErrLeaseLost)
	}
	if by := e.by; by.state == open {
		l.store.out = append(l.store.out, message{to: by, key: key, owner: owner, revoked: true})
	}
	l.store.free(key, owner, now)
	return nil
}

// inspect needs s.mu.
func (s *store) inspect(key string, now time.Time) locker.KeyState {
	state := locker.KeyState{Key: key}
	e := s.keys[key]
	if e == nil {
		return state
	}
	if e.held(now) {
		state.Held, state.Owner, state.Holder, state.Remaining = true, e.owner, e.holder, e.expires.Sub(now)
	}
	e.find("", now) // drops claims that are not seen any more
	state.Waiting = len(e.queue)
	for _, w := range e.queue[:min(len(e.queue), locker.MaxListed)] {
		about := w.claim.Holder
		about.Instance = w.by.id
		state.Waiters = append(state.Waiters, locker.Waiter{Owner: w.claim.Owner, Holder: about})
	}
	return state
}
