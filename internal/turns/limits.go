package turns

import (
	"math/rand/v2"
	"time"
)

// The limits that follow from the TTL, all in one place. An answer that takes
// longer is worth less than a new try.

// TryLimit bounds one try to acquire.
func TryLimit(ttl time.Duration) time.Duration { return min(ttl/4, 500*time.Millisecond) }

// tryGrace is how far the last try of a wait may exceed its end, so that it has
// a chance.
const tryGrace = 25 * time.Millisecond

// ReleaseLimit bounds the request that releases a key.
func ReleaseLimit(ttl time.Duration) time.Duration { return min(time.Second, ttl/2) }

// renewLimit bounds one try to renew a lease of the given length. A late one
// has less, see renewal.limit.
func renewLimit(length time.Duration) time.Duration { return length / 6 }

// MinRemaining is what must be left of a lease of the given length for a turn
// to begin.
func MinRemaining(length time.Duration) time.Duration { return length / 4 }

// Trusted is how long a lease of the given length may be trusted, counted from
// the moment before its request was sent. It is the length, minus the drift
// between the clocks of client and store, minus a margin to stop work in. See
// "MIN_VALIDITY" in the Redis docs on distributed locks.
func Trusted(length time.Duration) time.Duration {
	drift := max(length/100, 2*time.Millisecond)
	return length - drift - StopMargin(length)
}

// StopMargin is how long a function has to stop between the end of its context
// and the end of its key.
func StopMargin(length time.Duration) time.Duration { return max(length/20, 5*time.Millisecond) }

// renewalTime returns when to renew a lease of the given length whose request
// was sent at the given time. That is after a third of the length, give or take
// a tenth of that third. So leases that began together spread.
func renewalTime(sent time.Time, length time.Duration) time.Time {
	third := length / 3
	return sent.Add(third - third/10 + rand.N(third/5))
}

// offerRenewal is when a key that was handed over is renewed for the first
// time, if it is still held then.
const offerRenewal = 50 * time.Millisecond

// lingers is how long another process is believed to hold a key that was handed
// to it. A gate is kept so long to remember that.
const lingers = 20 * time.Millisecond
