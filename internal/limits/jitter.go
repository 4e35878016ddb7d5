package limits

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"
)

// repeating counts the calls of RepeatJitter that have not ended.
var repeating atomic.Int32

// grain is more than Apart adds to the times of a run, so that jitter does not
// follow from that.
const grain = 100 * time.Microsecond

// apart counts the calls of Apart since the last RepeatJitter.
var apart atomic.Int64

// RepeatJitter is for tests. Until end is called, the jitter of this program
// follows from the time, and Apart counts, from 0. A run in a testing/synctest
// bubble then repeats.
func RepeatJitter() (end func()) {
	repeating.Add(1)
	apart.Store(0)
	return func() { repeating.Add(-1) }
}

// Apart returns d, for a timer that is set now. With RepeatJitter it returns
// some nanoseconds more, each time other ones. Timers that are set at once for
// the same d then fire in their order. A testing/synctest bubble lets those of
// one instant fire in a random order.
func Apart(d time.Duration) time.Duration {
	if repeating.Load() == 0 {
		return d
	}
	return max(d, d+time.Duration(apart.Add(1))) // d may be for ever
}

// Jitter returns a random duration of at least 0 and less than d, which is
// above 0.
func Jitter(d time.Duration) time.Duration {
	if repeating.Load() == 0 {
		return rand.N(d)
	}
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendInt(nil, time.Now().Round(grain).UnixNano(), 36))
	j := time.Duration(h.Sum64() % uint64(d))
	if d > grain {
		j = j.Truncate(grain)
	}
	return j
}
