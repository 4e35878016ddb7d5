package guard

import (
	"math/rand/v2"
	"time"
)

// trust is until when a lease may be relied on, by two clocks: the monotonic one, which nobody can set, and the wall
// clock, which goes on while the machine sleeps. Whichever passes first ends it.
type trust struct{ mono, wall time.Time }

// trustFrom is the trust in a lease of the given TTL, which began in the store at some time after the request was sent.
func trustFrom(sent time.Time, ttl time.Duration) trust {
	end := sent.Add(trusted(ttl))
	return trust{mono: end, wall: end.Round(0)}
}

// left is how long trust lasts from now.
func (t trust) left(now time.Time) time.Duration {
	return min(t.mono.Sub(now), t.wall.Sub(now.Round(0)))
}

// later returns the one that ends later by the monotonic clock: a renewal never shortens trust.
func (t trust) later(o trust) trust {
	if o.mono.After(t.mono) {
		return o
	}
	return t
}

// renewalTime is when a lease that was given or renewed by a request sent at the given time is renewed: after a third
// of its TTL, give or take a tenth of that, so that leases which began together spread.
func renewalTime(sent time.Time, ttl time.Duration) time.Time {
	third := ttl / 3
	return sent.Add(third - third/10 + rand.N(third/5))
}
