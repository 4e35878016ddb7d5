package outcome

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard"
)

// maxJitter is how many seconds are added to Retry-After at most, so that those
// refused together do not come back together.
const maxJitter = 2

// retryAfter is the estimate that err carries, in whole seconds: at least one,
// plus jitter. Of a key that WithMinHold keeps the end is known, and gets none.
func retryAfter(err error) int {
	var estimate time.Duration
	var known interface{ RetryAfter() time.Duration }
	if errors.As(err, &known) {
		estimate = known.RetryAfter()
	}
	seconds := max(1, int(math.Ceil(estimate.Seconds())))
	if held := (*guard.HeldError)(nil); errors.As(err, &held) && held.Kept > 0 && held.Kept == estimate {
		return seconds
	}
	return seconds + rand.IntN(maxJitter+1)
}
