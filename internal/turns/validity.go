package turns

import (
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// trust is the time until which a lease may be relied on, with two deadlines.
// One is on the monotonic clock, which nobody can set. The other is on the wall
// clock, which goes on while the machine sleeps. The one that passes first ends
// the trust.
type trust struct {
	mono, wall time.Time
	// length is the length of the lease: its TTL, or that of an offer or a key
	// that lingers, before it has grown.
	length time.Duration
	// grown is the length that a renewal has given to a shorter lease. The
	// lease is trusted for that when another renewal has succeeded; 0: none.
	grown time.Duration
}

// trustFrom returns the trust in a lease of the given length. The lease began
// in the store at some time after its request was sent (law 1).
func trustFrom(sent time.Time, length time.Duration) trust {
	end := sent.Add(limits.Trusted(length))
	return trust{mono: end, wall: end.Round(0), length: length}
}

// left returns how long trust lasts from now. left is negative after the end.
func (t trust) left(now time.Time) time.Duration {
	return min(t.mono.Sub(now), t.wall.Sub(now.Round(0)))
}

// enough reports whether enough is left for a turn to begin.
func (t trust) enough(now time.Time) bool { return t.left(now) >= limits.Remaining(t.length) }

// sent returns when the request was sent that the trust comes from.
func (t trust) sent() time.Time { return t.mono.Add(-limits.Trusted(t.length)) }

// expiry returns about when the store drops the key unless the lease is
// renewed.
func (t trust) expiry() time.Time { return t.mono.Add(t.length - limits.Trusted(t.length)) }

// renewed returns the trust after a renewal. A renewal never shortens trust.
//
// A failover may lose the last write, and then leave the key the lease that it
// had before. So the renewal that makes a lease longer adds no trust. The next
// one does, because it finds the key there or tells of its loss. It comes a
// third of the shorter lease later, or earlier if the trust ends soon. A renewal
// of a lease that has its full length already is one TTL after another, of which
// the older lasts for two thirds when the next comes.
func (t trust) renewed(o trust) trust {
	if o.length > t.length && o.length > t.grown {
		t.grown = o.length
		return t
	}
	if t.mono.After(o.mono) {
		o.mono, o.wall = t.mono, t.wall
	}
	return o
}
