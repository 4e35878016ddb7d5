package memlocker

import (
	"context"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// record is what the last Keep or Begin has left beside a key. It counts while
// its owner does not own the key (law 20).
type record struct {
	value string
	owner string // of the claim that left it
	until time.Time
}

// claimState is the locker's own part of a claim.
type claimState struct {
	keep   *locker.Record // of a Keep without an answer
	unmark bool           // see Unmark
}

// Keep is Release of c with a record.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		stateOf(c).keep = &r // for end
		return locker.Released{}, err
	}
	released, kept := l.keep(c, next, r, now)
	if !kept {
		l.store.free(c.Key, c.Owner, now)
		return released, locker.ErrLeaseLost
	}
	return released, nil
}

// Begin marks the key of c.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (string, error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return "", err
	}
	s := l.store
	if s.owned(c, now) == nil {
		return "", locker.ErrLeaseLost
	}
	if old, found := s.records[c.Key]; found && now.Before(old.until) && old.owner != c.Owner {
		return old.value, nil
	}
	s.record(c, r, now)
	return "", nil
}

// Unmark lets the end of c remove its mark.
func (l *Locker) Unmark(c *locker.Claim) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	stateOf(c).unmark = true
}

// Forget deletes the record of key.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return false, err
	}
	counts := l.store.counting(key, now) != ""
	if counts {
		delete(l.store.records, key)
	}
	return counts, nil
}

// The methods below need store.mu.

// stateOf returns the state of c, for changes.
func stateOf(c *locker.Claim) *claimState {
	st, ok := c.State.(*claimState)
	if !ok {
		st = new(claimState)
		c.State = st
	}
	return st
}

// record makes r the record of c's key, in place of another.
func (s *store) record(c *locker.Claim, r locker.Record, now time.Time) {
	if s.records == nil {
		s.records = make(map[string]record)
	}
	s.records[c.Key] = record{r.Value, c.Owner, now.Add(r.TTL)}
}

// counting returns the record of key that counts, or "".
func (s *store) counting(key string, now time.Time) string {
	r, found := s.records[key]
	if !found || !now.Before(r.until) {
		return ""
	}
	if e := s.keys[key]; e != nil && e.share(r.owner, now) != nil {
		return ""
	}
	return r.value
}

// recall returns the record that c finds in place of its key. c leaves the queue
// then. An owner finds none.
func (s *store) recall(c *locker.Claim, now time.Time) string {
	if !c.Recall || s.owned(c, now) != nil {
		return ""
	}
	record := s.counting(c.Key, now)
	if e := s.keys[c.Key]; record != "" && e != nil {
		e.remove(c.Owner, now)
	}
	return record
}

// keep keeps r if c owns its key. It reports whether the record is there, by
// this Keep or an earlier one of c.
func (l *Locker) keep(c, next *locker.Claim, r locker.Record, now time.Time) (_ locker.Released, kept bool) {
	s := l.store
	if s.owned(c, now) == nil {
		old, found := s.records[c.Key]
		same := found && old.owner == c.Owner && old.value == r.Value
		return locker.Released{}, same && now.Before(old.until)
	}
	s.record(c, r, now)
	e := s.keys[c.Key]
	e.queue = slices.DeleteFunc(e.queue, func(w waiting) bool {
		if w.claim.Recall {
			s.out = append(s.out, message{to: w.by, key: c.Key, owner: w.claim.Owner, record: r.Value})
		}
		return w.claim.Recall
	})
	return l.release(e, c, next, now), true
}

// unmark removes the mark of c if nothing was done under c.
func (s *store) unmark(c *locker.Claim) {
	st, ok := c.State.(*claimState)
	if ok && st.unmark && s.records[c.Key].owner == c.Owner {
		delete(s.records, c.Key)
	}
}

// end leaves nothing of c behind. If a Keep of c had no answer, it keeps the
// record first (law 19).
func (l *Locker) end(c *locker.Claim, now time.Time) {
	if st, ok := c.State.(*claimState); ok && st.keep != nil {
		if _, kept := l.keep(c, nil, *st.keep, now); kept {
			return
		}
	}
	l.store.unmark(c)
	l.store.free(c.Key, c.Owner, now)
}
