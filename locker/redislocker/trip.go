package redislocker

import (
	"context"
	"sync/atomic"
	"time"
)

// trip is how long a round trip takes: a moving average, so that one slow
// answer does not count for much. Safe for concurrent use.
type trip struct{ mean atomic.Int64 } // ns; 0: not known

// note takes a measurement into account.
func (t *trip) note(took time.Duration) {
	next := int64(took)
	if old := t.mean.Load(); old > 0 {
		next = old + (next-old)/4
	}
	t.mean.Store(max(next, 1)) // one lost in a race is no harm
}

// tight reports whether two round trips, one after the other, may be too long
// for ctx.
func (t *trip) tight(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && 4*time.Duration(t.mean.Load()) > time.Until(end)
}

// short reports whether the server is known to be near.
func (t *trip) short() bool {
	mean := time.Duration(t.mean.Load())
	return mean > 0 && mean < shortTrip
}

// shortTrip is a round trip that even the few of a new connection cost no try.
const shortTrip = 50 * time.Millisecond

// patience is limit, or longer if the server is too far away for that. With a
// nil trip it is near.
func (t *trip) patience(limit time.Duration) time.Duration {
	if t == nil {
		return limit
	}
	return max(limit, min(3*time.Duration(t.mean.Load()), dialLimit))
}
