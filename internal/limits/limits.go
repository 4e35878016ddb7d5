// Package limits has the numbers of the engine, most of which follow from the
// TTL. Each is a pure function or a constant.
package limits

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Try bounds one try to acquire. An answer that takes longer is worth less than
// a new try.
func Try(ttl time.Duration) time.Duration { return min(ttl/4, 500*time.Millisecond) }

// TryGrace is how far the last try of a wait may exceed its end, so that it has
// a chance.
const TryGrace = 25 * time.Millisecond

// Release bounds the request that releases a key.
func Release(ttl time.Duration) time.Duration { return min(time.Second, ttl/2) }

// Renew bounds one try to renew a lease with the given TTL. A late one has
// less, see renewal.limit.
func Renew(ttl time.Duration) time.Duration { return ttl / 6 }

// Remaining is what must be left of a lease of the given length for a turn
// to begin.
func Remaining(length time.Duration) time.Duration { return length / 4 }

// Trusted is how long a lease of the given length may be trusted, counted from
// the moment before its request was sent. It is the length, minus the drift
// between the clocks of client and store, minus a margin to stop work in. See
// "MIN_VALIDITY" in the Redis docs on distributed locks.
func Trusted(length time.Duration) time.Duration {
	drift := max(length/100, 2*time.Millisecond)
	return length - drift - StopMargin(length)
}

// Likely is how long an answer is likely to take, if another took so long.
func Likely(took time.Duration) time.Duration { return took + took/4 }

// StopMargin is how long a function has to stop between the end of its context
// and the end of its key.
func StopMargin(length time.Duration) time.Duration { return max(length/20, 5*time.Millisecond) }

// RenewalTime returns when to renew a lease of the given length whose request
// was sent at the given time. That is after a third of the length, give or take
// a tenth of that third. So leases that began together spread.
func RenewalTime(sent time.Time, length time.Duration) time.Time {
	third := length / 3
	return sent.Add(third - third/10 + Jitter(third/5))
}

// OfferRenewal is when a key that was handed over is renewed for the first
// time, if it is still held then.
const OfferRenewal = 50 * time.Millisecond

// Idle is how long a key that nobody here uses may stay after its lease of the
// given length began. Such a key is not renewed, and more is left than the
// begin of a turn needs.
func Idle(length time.Duration) time.Duration { return length / 2 }

// Ask is how long a call with one attempt waits at least for a key that may be
// idle in another process. A message between two nodes of a Redis Cluster may
// take 40 ms, which is how long TCP may hold an acknowledgement back.
const Ask = 50 * time.Millisecond

// Busy is how long another process is believed to hold a key that was handed
// to it. An unused gate is kept so long to remember that.
const Busy = 20 * time.Millisecond

// TenureTurns and TenureTime bound a tenure. After so many turns, or so long,
// the key is really released, so that other processes get it.
const (
	TenureTurns = locker.FenceBlock
	TenureTime  = 100 * time.Millisecond
)
