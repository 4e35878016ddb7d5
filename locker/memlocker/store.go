package memlocker

import (
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

const (
	// tidyEvery is how often somebody who comes by drops the entries that have expired.
	tidyEvery = time.Second

	// waitsFor is how long an instance is believed to wait for a free key after it last said so.
	waitsFor = 2 * time.Second

	// lateAfter is when an abandoned claim is dropped for the second time.
	lateAfter = time.Second
)

// store is what peers share.
type store struct {
	mu sync.Mutex // guards all below, and the state of each peer; held for map work only, never across a wake-up

	keys   map[string]*entry
	tidied time.Time
	late   []late // in the order of their times

	token  uint64 // the last fencing token given for any key: one counter for all, so that it need not expire
	ticket ticket // the last place given in any queue
	broken int    // how many Breaks are not mended
}

// entry is one key: who owns it, and which instances wait for it. One that is neither held nor waited for is dropped.
type entry struct {
	owner   string  // "" if released
	by      *Locker // of owner
	holder  guard.Holder
	expires time.Time
	queue   []place   // by ticket
	asked   time.Time // when somebody last queued
}

// place is that of one instance in a queue.
type place struct {
	ticket ticket
	locker *Locker
}

// ticket is the order of arrival. A claim keeps its own as State: beaten after a wake-up, it does not start at the back.
type ticket uint64

// late is an abandoned claim, to be dropped again.
type late struct {
	at         time.Time
	key, owner string
}

func (e *entry) held(now time.Time) bool { return e.owner != "" && now.Before(e.expires) }

// leave takes l out of the queue.
func (e *entry) leave(l *Locker) {
	e.queue = slices.DeleteFunc(e.queue, func(p place) bool { return p.locker == l })
}

// The methods below need s.mu, but for again and wake, which take it.

// at returns the entry of key, a new one if need be.
func (s *store) at(key string) *entry {
	e := s.keys[key]
	if e == nil {
		e = new(entry)
		s.keys[key] = e
	}
	return e
}

// owned returns the entry of c.Key if c.Owner owns it now, else nil.
func (s *store) owned(c *guard.Claim, now time.Time) *entry {
	if e := s.keys[c.Key]; e != nil && e.held(now) && e.owner == c.Owner {
		return e
	}
	return nil
}

// fence reserves a block of tokens and returns the first. The time makes it greater than what an earlier process gave.
func (s *store) fence(now time.Time) uint64 {
	first := max(s.token+1, uint64(now.UnixMicro()))
	s.token = first + guard.FenceBlock - 1
	return first
}

// tidy drops what time has ended.
func (s *store) tidy(now time.Time) {
	for len(s.late) > 0 && !now.Before(s.late[0].at) {
		if e := s.keys[s.late[0].key]; e != nil && e.owner == s.late[0].owner {
			e.owner = ""
		}
		s.late = s.late[1:]
	}
	if now.Sub(s.tidied) < tidyEvery {
		return
	}
	s.tidied = now
	for key, e := range s.keys {
		waits := len(e.queue) > 0 && now.Sub(e.asked) < waitsFor
		if !e.held(now) && !waits {
			delete(s.keys, key)
		}
	}
}

// again notes that c is to be dropped once more.
func (s *store) again(c *guard.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, late{time.Now().Add(lateAfter), c.Key, c.Owner})
}

// queue gives l a place in the queue of e, the one that c had before if it had one, and reports whether l had none.
func (l *Locker) queue(e *entry, c *guard.Claim, now time.Time) (fresh bool) {
	e.asked = now
	mine, ok := c.State.(ticket)
	if !ok {
		l.store.ticket++
		mine = l.store.ticket
		c.State = mine
	}
	c.Queued = true
	before := len(e.queue)
	e.leave(l)
	fresh = len(e.queue) == before
	i := len(e.queue)
	for i > 0 && e.queue[i-1].ticket > mine {
		i--
	}
	e.queue = slices.Insert(e.queue, i, place{mine, l})
	return fresh
}

// wake tells the first in the queue of key to try, or the next if nobody waits there any more.
func (l *Locker) wake(key string) guard.Freed {
	for {
		next, behind := l.store.next(key)
		if next == nil || next == l {
			return guard.Freed{}
		}
		if next.waker.Wake(key, behind) {
			return guard.Freed{Waiting: 1 + behind, Woken: true}
		}
	}
}

// next takes the first instance out of the queue of key, if key is free, and returns how many there are behind it. An
// entry that nobody needs any more is dropped.
func (s *store) next(key string) (first *Locker, behind int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[key]
	if e == nil || e.held(time.Now()) {
		return nil, 0
	}
	if len(e.queue) > 0 {
		first = e.queue[0].locker
		e.queue = e.queue[1:]
	}
	if len(e.queue) == 0 {
		delete(s.keys, key)
	}
	return first, len(e.queue)
}
