package memlocker

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const (
	// tidyEvery is how often a call drops the entries that have expired.
	tidyEvery = time.Second

	// lateAfter is how long after its Abandon a claim is dropped for the second
	// time.
	lateAfter = time.Second
)

// store is the state that peers share.
type store struct {
	// mu guards all below and the state of each peer. It is held for map work
	// only, never while a peer is told.
	mu sync.Mutex

	keys    map[string]*entry
	records map[string]record // nil before the first
	spare   *entry            // for the next new key
	tidied  time.Time
	late    []again   // in the order of their times
	out     []message // what leave is to tell

	// token is the last fencing token given for any key. One counter serves all
	// keys, so that it need not expire.
	token  uint64
	place  locker.Place // the last one given at the back of any queue
	broken int          // how many Breaks are not mended
}

// entry is one key: its owners, and the claims that wait for it. An entry is
// dropped when it is neither held nor waited for.
type entry struct {
	owners []share
	queue  []waiting // in the order of their places
}

// again is an abandoned claim, to be dropped again.
type again struct {
	at    time.Time
	by    *Locker
	claim *locker.Claim
	end   locker.End
}

// The methods below need s.mu.

// at returns the entry of key. It makes a new one if there is none.
func (s *store) at(key string) *entry {
	e := s.keys[key]
	if e == nil {
		e, s.spare = s.spare, nil
		if e == nil {
			e = new(entry)
		}
		s.keys[key] = e
	}
	return e
}

// drop forgets the entry of key.
func (s *store) drop(key string, e *entry) {
	delete(s.keys, key)
	*e = entry{owners: e.owners[:0], queue: e.queue[:0]}
	s.spare = e
}

// owned returns c's own share of its key, and nil if c does not own the key
// now.
func (s *store) owned(c *locker.Claim, now time.Time) *share {
	if e := s.keys[c.Key]; e != nil {
		return e.share(c.Owner, now)
	}
	return nil
}

// grant makes c an owner until the given time, and returns the first of its
// tokens. c is not in the queue.
func (s *store) grant(e *entry, by *Locker, c *locker.Claim, until, now time.Time) (token uint64) {
	e.owners = append(e.owners, share{
		owner: c.Owner, lingers: c.Lingers, limit: max(c.Limit, 1), by: by, holder: c.Holder, expires: until,
	})
	return s.tokens(c, now)
}

// tokens reserves a block of tokens if c wants one, and returns the first.
func (s *store) tokens(c *locker.Claim, now time.Time) uint64 {
	if !c.Fencing {
		return 0
	}
	return s.fence(now)
}

// fence reserves a block of tokens and returns the first. The time makes it
// greater than the tokens of an earlier process.
func (s *store) fence(now time.Time) uint64 {
	first := max(s.token+1, uint64(now.UnixMicro()))
	s.token = first + locker.FenceBlock - 1
	return first
}

// finish drops the claims that l has abandoned, before their time.
func (s *store) finish(l *Locker, now time.Time) {
	for _, c := range s.late {
		if c.by == l {
			_, _ = l.end(c.claim, c.end, now)
		}
	}
	s.late = slices.DeleteFunc(s.late, func(c again) bool { return c.by == l })
}

// tidy drops entries and claims whose time is over.
func (s *store) tidy(now time.Time) {
	for len(s.late) > 0 && !now.Before(s.late[0].at) {
		_, _ = s.late[0].by.end(s.late[0].claim, s.late[0].end, now)
		s.late = s.late[1:]
	}
	if now.Sub(s.tidied) < tidyEvery {
		return
	}
	s.tidied = now
	maps.DeleteFunc(s.records, func(_ string, r record) bool { return !now.Before(r.until) })
	for key, e := range s.keys {
		if e.find("", now); !e.held(now) && len(e.queue) == 0 {
			s.drop(key, e)
		}
	}
}
