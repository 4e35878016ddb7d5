package memlocker

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

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
	own := l.store.owned(&locker.Claim{Key: key, Owner: owner}, now)
	if own == nil {
		return fmt.Errorf("memlocker: %w: that owner does not hold the key", locker.ErrLeaseLost)
	}
	if by := own.by; by.state == open {
		l.store.out = append(l.store.out, message{to: by, key: key, owner: owner, revoked: true})
	}
	l.store.free(key, owner, now)
	return nil
}

// inspect needs s.mu.
func (s *store) inspect(key string, now time.Time) locker.KeyState {
	state := locker.KeyState{Key: key}
	e := s.keys[key]
	if r := s.records[key]; now.Before(r.until) && (e == nil || e.share(r.owner, now) == nil) {
		state.Record = locker.RecordState{
			Size: len(r.value), Remaining: r.until.Sub(now), Head: r.value[:min(len(r.value), locker.RecordHead)],
		}
	}
	if e == nil {
		return state
	}
	if e.held(now) {
		state.Held, state.Remaining = true, e.lasts(now)
		e.describe(&state)
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

// describe fills in who owns the key, which is held.
func (e *entry) describe(state *locker.KeyState) {
	if first := &e.owners[0]; first.limit == 1 {
		state.Owner, state.Holder, state.Lingers = first.owner, first.holder, first.lingers
		return
	}
	state.Limit = locker.NoLimit
	for i, s := range e.owners {
		state.Limit = min(state.Limit, s.limit)
		if i < locker.MaxListed {
			state.Owners = append(state.Owners, locker.Waiter{Owner: s.owner, Holder: s.holder})
		}
	}
}
