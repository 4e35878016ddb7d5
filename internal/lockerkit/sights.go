package lockerkit

import (
	"maps"
	"sync"
	"time"
)

// maxSeen bounds the sights that are kept. If one is forgotten, its TTL is
// measured anew.
const maxSeen = 10_000

// Sight is a key of another owner in one revision, with the time at which its
// TTL ends by the clock of this process. Nobody sees a revision before it is
// written, so that is never early. Ends is zero for the value of a stranger,
// which never ends.
type Sight struct {
	Revision int64
	Ends     time.Time
}

// Over reports whether the TTL has ended.
func (s Sight) Over(now time.Time) bool { return !s.Ends.IsZero() && !now.Before(s.Ends) }

// Left returns what is left of the TTL at most, or 0 if that is unknown.
func (s Sight) Left(now time.Time) time.Duration { return max(0, s.Ends.Sub(now)) }

// Sights are the keys that others own and that this process has looked at.
// Sights are for a store whose server does not end leases.
//
// The zero Sights is ready. Sights are safe for concurrent use.
type Sights struct {
	mu   sync.Mutex // guards seen; never held across I/O or a callback
	seen map[string]Sight
}

// First notes that key was seen as s says. First returns the first sight of
// that revision.
func (ss *Sights) First(key string, s Sight, now time.Time) Sight {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if first, ok := ss.seen[key]; ok && first.Revision == s.Revision {
		return first
	}
	if ss.seen == nil {
		ss.seen = make(map[string]Sight)
	}
	if len(ss.seen) >= maxSeen {
		ss.forgetSome(now)
	}
	ss.seen[key] = s
	return s
}

// Seen returns the first sight of a revision of key, if there was one.
func (ss *Sights) Seen(key string, revision int64) (s Sight, ok bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s, ok = ss.seen[key]
	return s, ok && s.Revision == revision
}

// Forget forgets key, because a claim of this process owns it.
func (ss *Sights) Forget(key string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.seen, key)
}

// forgetSome drops the sights that ended a minute ago, and if there are too few
// others too, down to nine tenths. The caller has mu.
func (ss *Sights) forgetSome(now time.Time) {
	maps.DeleteFunc(ss.seen, func(_ string, s Sight) bool { return s.Over(now.Add(-time.Minute)) })
	for key := range ss.seen {
		if len(ss.seen) <= maxSeen*9/10 {
			return
		}
		delete(ss.seen, key)
	}
}
