package memlocker

import (
	"context"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// record is what the last Keep has left beside a key.
type record struct {
	value string
	owner string // of the claim that kept it
	until time.Time
}

// Keep is Release of c with a record.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		c.State = r // for end
		return locker.Released{}, err
	}
	released, kept := l.keep(c, next, r, now)
	if !kept {
		l.store.free(c.Key, c.Owner, now)
		return released, locker.ErrLeaseLost
	}
	return released, nil
}

// Forget deletes the record of key.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return false, err
	}
	r, found := l.store.records[key]
	delete(l.store.records, key)
	return found && now.Before(r.until), nil
}

// The methods below need store.mu.

// recall returns the record of c's key if there is one and c recalls.
func (s *store) recall(c *locker.Claim, now time.Time) string {
	if r, found := s.records[c.Key]; c.Recall && found && now.Before(r.until) {
		return r.value
	}
	return ""
}

// keep keeps r if c owns its key. It reports whether the record is there, by
// this Keep or an earlier one of c.
func (l *Locker) keep(c, next *locker.Claim, r locker.Record, now time.Time) (_ locker.Released, kept bool) {
	s := l.store
	if s.owned(c, now) == nil {
		old, found := s.records[c.Key]
		return locker.Released{}, found && old.owner == c.Owner && now.Before(old.until)
	}
	if s.records == nil {
		s.records = make(map[string]record)
	}
	s.records[c.Key] = record{r.Value, c.Owner, now.Add(r.TTL)}
	e := s.keys[c.Key]
	e.queue = slices.DeleteFunc(e.queue, func(w waiting) bool {
		if w.claim.Recall {
			s.out = append(s.out, message{to: w.by, key: c.Key, owner: w.claim.Owner, record: r.Value})
		}
		return w.claim.Recall
	})
	return l.release(e, c, next, now), true
}

// end leaves nothing of c behind. If a Keep of c had no answer, it keeps the
// record first (law 19).
func (l *Locker) end(c *locker.Claim, now time.Time) {
	if r, unclear := c.State.(locker.Record); unclear {
		if _, kept := l.keep(c, nil, r, now); kept {
			return
		}
	}
	l.store.free(c.Key, c.Owner, now)
}
