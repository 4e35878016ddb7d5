package sqllease

import (
	"context"
	"iter"
	"regexp"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const listPage = 200

// Inspect returns the owner of key and the claims that wait for it, by one
// read.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.KeyState{}, err
	}
	defer l.gate.Leave()
	rows, err := l.table.read(ctx, []string{key}, false)
	if err != nil {
		return locker.KeyState{}, l.sorted(err)
	}
	return stateOf(key, rows[key]), nil
}

// stateOf describes a row, which may be nil.
func stateOf(key string, r *row) locker.KeyState {
	s := locker.KeyState{Key: key}
	if r == nil {
		return s
	}
	s.Record = r.recordState()
	if !r.free() {
		r.describe(&s)
	}
	for _, w := range r.queue {
		if !r.alive(w) {
			continue
		}
		s.Waiting++
		if len(s.Waiters) < locker.MaxListed {
			s.Waiters = append(s.Waiters, locker.Waiter{Owner: w.Owner, Holder: holderOf(w.Holder)})
		}
	}
	return s
}

// List returns the state of each key that is owned or waited for, in the order
// of their names. It reads 200 rows at a time.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		if err := l.gate.Enter(); err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		defer l.gate.Leave()
		l.list(ctx, yield)
	}
}

func (l *Locker) list(ctx context.Context, yield func(locker.KeyState, error) bool) {
	for after := ""; ; {
		keys, rows, err := l.table.page(ctx, after, listPage)
		if err != nil {
			yield(locker.KeyState{}, l.sorted(err))
			return
		}
		for i, key := range keys {
			if s := stateOf(key, rows[i]); (s.Held || s.Waiting > 0) && !yield(s, nil) {
				return
			}
		}
		if len(keys) < listPage {
			return
		}
		after = keys[len(keys)-1]
	}
}

var ownerID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// ForceRelease ends the hold of owner on key and hands the key over. The owner
// learns of it by its next renewal.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if len(owner) != locker.OwnerLen || !ownerID.MatchString(owner) {
		return lockerkit.Invalid(l.table.Name, "%q is no owner id", owner)
	}
	if err := l.gate.Enter(); err != nil {
		return err
	}
	defer l.gate.Leave()
	r := l.lanes.do(ctx, request{verb: revoke, key: key, owner: owner})
	if r.err != nil {
		return l.unclear(r)
	}
	if !r.ok {
		return l.lost()
	}
	return nil
}
