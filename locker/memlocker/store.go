package memlocker

import (
	"maps"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// tidyEvery is how often a call drops the entries that have expired.
const tidyEvery = time.Second

// store is the state that peers share.
type store struct {
	// mu guards all below and the state of each peer. It is held for map work
	// only, never while a peer is told.
	mu sync.Mutex

	keys    map[string]*entry
	records map[string]record // nil before the first
	unused  *entry            // for the next new key
	tidied  time.Time
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

// The methods below need s.mu.

// at returns the entry of key. It makes a new one if there is none.
func (s *store) at(key string) *entry {
	e := s.keys[key]
	if e == nil {
		e, s.unused = s.unused, nil
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
	s.unused = e
}

// owned returns c's own share of its key, and nil if c does not own the key
// now.
func (s *store) owned(c *locker.Claim, now time.Time) *share {
	if e := s.keys[c.Key]; e != nil {
		return e.share(c.Owner, now)
	}
	return nil
}

// grant makes c an owner until the given time. It reserves a block of tokens if
// c wants one, and returns the first. c is not in the queue.
func (s *store) grant(e *entry, by *Locker, c *locker.Claim, until, now time.Time) (token uint64) {
	if own := e.share(c.Owner, now); own != nil {
		own.expires = until
	} else {
		e.owners = append(e.owners, share{
			owner: c.Owner, lingers: c.Lingers, limit: max(c.Limit, 1), by: by, holder: c.Holder, expires: until,
		})
	}
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

// tidy drops entries whose time is over.
func (s *store) tidy(now time.Time) {
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
