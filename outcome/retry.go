package outcome

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// maxJitter is the most seconds added to Retry-After, so that those refused together do not come back together.
const maxJitter = 2

// retryAfter is the estimate that err carries, capped there by what is left of the holder's lease and that itself if the
// pace of turns is unknown, in whole seconds: at least one, plus jitter.
func retryAfter(err error) int {
	var estimate time.Duration
	var known interface{ RetryAfter() time.Duration }
	if errors.As(err, &known) {
		estimate = known.RetryAfter()
	}
	return max(1, int(math.Ceil(estimate.Seconds()))) + rand.IntN(maxJitter+1)
}
