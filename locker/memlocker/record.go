package memlocker

import (
	"context"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// record is what the last Release or Begin has left beside a key. It counts
// while its owner does not own the key (law 12).
type record struct {
	value string
	owner string // of the claim that left it
	until time.Time
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

// end ends c, at its key and in the queue, and does what e says.
func (l *Locker) end(c *locker.Claim, e locker.End, now time.Time) (locker.Released, error) {
	s := l.store
	old, found := s.records[c.Key]
	switch {
	case s.owned(c, now) != nil:
		if e.Record.Value != "" {
			l.keep(c, e.Record, now)
		} else if e.Unmark && old.owner == c.Owner {
			delete(s.records, c.Key)
		}
		return l.release(s.keys[c.Key], c, e.Next, now), nil
	case e.Record.Value != "" && found && old.owner == c.Owner && old.value == e.Record.Value && now.Before(old.until):
		return locker.Released{}, nil // kept before
	case e.Unmark && old.owner == c.Owner:
		delete(s.records, c.Key)
	}
	s.free(c.Key, c.Owner, now) // the key may be nobody's, with others in its queue
	return locker.Released{}, locker.ErrLeaseLost
}

// keep keeps r beside the key of c, and takes the claims that recall out of its
// queue.
func (l *Locker) keep(c *locker.Claim, r locker.Record, now time.Time) {
	s := l.store
	s.record(c, r, now)
	e := s.keys[c.Key]
	e.queue = slices.DeleteFunc(e.queue, func(w waiting) bool {
		if w.claim.Recall {
			s.out = append(s.out, message{to: w.by, key: c.Key, owner: w.claim.Owner, record: r.Value})
		}
		return w.claim.Recall
	})
}
