package turns

import (
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// Backoff is full jitter over an exponential: "Exponential Backoff And Jitter",
// AWS Architecture Blog, 2015.
type Backoff struct{ Initial, Max time.Duration }

// Pause returns the pause after the n-th try (from 0) that got nowhere.
func (b Backoff) Pause(n int) time.Duration {
	d := b.Max
	if n < 30 && b.Initial < b.Max>>n {
		d = b.Initial << n
	}
	return limits.Jitter(d) + 1
}

// look returns the pause before the next look of a claim that is queued. offer
// is how long the key would be offered to the claim. A message ends the pause
// early. If the message is lost, the look must come while the offer lasts. A
// look at least every locker.LookEvery keeps the claim alive in the store's
// queue.
//
// A claim that rests is sure to be told, and looks in time for the store, which
// counts the rest from its own clock.
func (b Backoff) look(offer, rest time.Duration) time.Duration {
	longest := max(min(b.Max, locker.LookEvery, offer/2), rest-locker.LookEvery)
	return longest/2 + limits.Jitter(longest/2+1)
}

const (
	// A process that waits for manyWaits keys or more lets its claims rest. A
	// process that waits for fewer notices nothing, whatever the backoff.
	manyWaits = 300

	// looksPerSecond is the number of looks per second of all claims that rest,
	// if each comes as late as it may. On average there are a third more.
	looksPerSecond = 1000

	// wakesPerSecond is the number of looks per second when they must all look
	// again.
	wakesPerSecond = 4000
)

// restFor returns how long a claim would rest in a process that waits for that
// many keys.
func restFor(waits int64) time.Duration {
	if waits < manyWaits {
		return 0
	}
	return min(time.Duration(waits)*time.Second/looksPerSecond+locker.LookEvery, locker.MaxRest)
}

// wakeSpread returns the time over which a process that waits for that many keys
// spreads its looks when messages may have been missed.
func wakeSpread(waits int64) time.Duration {
	if waits < manyWaits {
		return 0
	}
	return time.Duration(waits) * time.Second / wakesPerSecond
}
