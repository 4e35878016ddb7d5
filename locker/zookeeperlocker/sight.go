package zookeeperlocker

import (
	"maps"
	"time"
)

// maxSeen bounds the keys that others own and that this process has looked at.
// If one is forgotten, its TTL is measured anew.
const maxSeen = 10_000

// sighting is an owner node as one transaction left it, with the time at which
// its TTL ends by the clock of this process. Nobody sees it before it is
// written, so that is never early. ends is zero for the value of a stranger,
// which never ends.
type sighting struct {
	zxid int64
	ends time.Time
}

// sightingOf is the first sight of a node.
func sightingOf(n node, now time.Time) sighting {
	s := sighting{zxid: n.stat.Mzxid}
	if _, r, ok := parse(n.value); ok {
		s.ends = now.Add(r.ttl())
	}
	return s
}

// over reports whether the TTL has ended.
func (s sighting) over(now time.Time) bool { return !s.ends.IsZero() && !now.Before(s.ends) }

// left returns what is left of the TTL at most, or 0 if that is unknown.
func (s sighting) left(now time.Time) time.Duration { return max(0, s.ends.Sub(now)) }

// sight notes the owner node of a key that another process owns.
func (l *Locker) sight(key string, n node, now time.Time) sighting {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.seen[key]; ok && s.zxid == n.stat.Mzxid {
		return s
	}
	if len(l.seen) >= maxSeen {
		l.forgetSome(now)
	}
	s := sightingOf(n, now)
	l.seen[key] = s
	return s
}

// forgetSome drops the sightings that ended a minute ago, or a tenth of all if
// there are none. The caller has l.mu.
func (l *Locker) forgetSome(now time.Time) {
	maps.DeleteFunc(l.seen, func(_ string, s sighting) bool { return s.over(now.Add(-time.Minute)) })
	for key := range l.seen {
		if len(l.seen) <= maxSeen*9/10 {
			return
		}
		delete(l.seen, key)
	}
}
