package turns

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Keys that processes share at random cost little from the first second on, and
// less later. A process whose keys stay with it again lingers with them again.
func TestLingerStats_LearnWhereItDoesNotPay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h lingerStats
		h.begin(maphash.MakeSeed())
		// second takes free keys and returns with how many lingered.
		second := func(taken int) (lingered int) {
			for range 10_000 {
				time.Sleep(100 * time.Microsecond)
				key := strconv.Itoa(rand.N(256))
				if h.may(key, time.Now()) {
					lingered++
					for range taken {
						h.paid()
					}
					h.ended(key, taken)
				}
				h.took(key)
			}
			return lingered
		}
		first, next := second(1), second(1)
		if first > 100 || next > 50 {
			t.Errorf("%d and %d keys lingered in vain in the first two seconds, want at most 100 and 50", first, next)
		}
		for range 4 {
			second(100)
		}
		if n := second(100); n < 100 {
			t.Errorf("%d keys lingered in a second after it pays again, want 100 or more", n)
		}
	})
}
