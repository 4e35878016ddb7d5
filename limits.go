package guard

import (
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The limits that follow from the TTL, all in one place: an answer that takes longer is worth less than a new try.

// tryLimit bounds one try to acquire.
func tryLimit(ttl time.Duration) time.Duration { return min(ttl/4, 500*time.Millisecond) }

// releaseLimit bounds the request that releases a key.
func releaseLimit(ttl time.Duration) time.Duration { return min(time.Second, ttl/2) }

// renewLimit bounds one try to renew a lease of the given length; a late one has less, see [renewal.limit].
func renewLimit(length time.Duration) time.Duration { return length / 6 }

// minRemaining is what must be left of a lease of the given length for a turn to start.
func minRemaining(length time.Duration) time.Duration { return length / 4 }

// trusted is how long after the request was sent a lease of the given length may be trusted: all of it, less what the
// clocks of client and store may drift apart in it, less a margin to stop work in. See "MIN_VALIDITY" in the Redis docs on
// distributed locks.
func trusted(length time.Duration) time.Duration {
	drift := max(length/100, 2*time.Millisecond)
	return length - drift - stopMargin(length)
}

// stopMargin is how long a function has to stop between the end of its context and that of the key.
func stopMargin(length time.Duration) time.Duration { return max(length/20, 5*time.Millisecond) }

// trust is until when a lease may be relied on, by two clocks: the monotonic one, which nobody can set, and the wall
// clock, which goes on while the machine sleeps. Whichever passes first ends it.
type trust struct{ mono, wall time.Time }

// trustFrom is the trust in a lease of the given length, which began in the store at some time after the request was sent
// (law 1).
func trustFrom(sent time.Time, length time.Duration) trust {
	end := sent.Add(trusted(length))
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

// renewalTime is when a lease of the given length that began by a request sent at the given time is renewed: after a
// third of it, give or take a tenth of that, so that leases which began together spread.
func renewalTime(sent time.Time, length time.Duration) time.Time {
	third := length / 3
	return sent.Add(third - third/10 + rand.N(third/5))
}

// offerRenewal is when a key that was handed over is renewed for the first time, if it is still held then.
const offerRenewal = 50 * time.Millisecond

// backoff is full jitter over an exponential: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
type backoff struct{ first, most time.Duration }

// mostBetweenLooks keeps a claim alive in the store's queue, and its offers young, whatever the backoff, unless it rests.
const mostBetweenLooks = locker.LookEvery

// pause returns the pause after the n-th try (from 0) that got nowhere.
func (b backoff) pause(n int) time.Duration {
	d := b.most
	if n < 30 && b.first < b.most>>n {
		d = b.first << n
	}
	return rand.N(d) + 1
}

// look returns the pause before the next look of a claim that is queued and would be offered the key for that long: it
// will be told, unless the message gets lost, and then it must look while the offer lasts. One that rests is sure to be
// told, and looks in time for the store, which counts the rest from its own clock.
func (b backoff) look(offer, rest time.Duration) time.Duration {
	most := max(min(b.most, mostBetweenLooks, offer/2), rest-locker.LookEvery)
	return most/2 + rand.N(most/2+1)
}

const (
	// manyWaits is from how many keys on that a process waits for its claims
	// rest. Fewer notice nothing, whatever the backoff.
	manyWaits = 300

	// looksPerSecond is how many looks of claims that rest come in a second, if
	// each comes as late as it may. On average there are a third more.
	looksPerSecond = 1200
)

// rest returns for how long a claim would rest in a process that waits for so many keys.
func rest(waits int64) time.Duration {
	if waits < manyWaits {
		return 0
	}
	return min(time.Duration(waits)*time.Second/looksPerSecond+locker.LookEvery, locker.MaxRest)
}
