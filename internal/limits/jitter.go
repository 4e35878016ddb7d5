package limits

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"
)

// repeatable is set for good by RepeatJitter.
var repeatable atomic.Bool

// RepeatJitter is for tests. From now on the jitter of this program follows from
// the time. A run in a testing/synctest bubble then repeats exactly, whatever
// runs beside it.
func RepeatJitter() { repeatable.Store(true) }

// Jitter returns a random duration of at least 0 and less than d, which is
// above 0.
func Jitter(d time.Duration) time.Duration {
	if !repeatable.Load() {
		return rand.N(d)
	}
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendInt(nil, time.Now().UnixNano(), 36))
	return time.Duration(h.Sum64() % uint64(d))
}
