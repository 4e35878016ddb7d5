package outcome

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard"
)

// maxJitter is the max number of seconds added to Retry-After. It keeps
// requests that were refused together from coming back together.
const maxJitter = 2

// retryAfter is the estimate that err carries, in whole seconds. It is at least
// one, plus jitter. If WithMinHold keeps the key, its end is known and no
// jitter is added.
func retryAfter(err error) int {
	var estimate time.Duration
	var known interface{ RetryAfter() time.Duration }
	if errors.As(err, &known) {
		estimate = known.RetryAfter()
	}
	seconds := max(1, int(math.Ceil(estimate.Seconds())))
	if held := (*guard.HeldError)(nil); errors.As(err, &held) && held.Cooldown > 0 && held.Cooldown == estimate {
		return seconds
	}
	return seconds + rand.IntN(maxJitter+1)
}
