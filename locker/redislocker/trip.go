package redislocker

import (
	"context"
	"sync/atomic"
	"time"
)

// trip is the length of a round trip. It is a moving average, so that one slow
// answer does not count for much. A trip is safe for concurrent use.
type trip struct{ mean atomic.Int64 } // ns; 0: not known

// note adds a measurement to the average.
func (t *trip) note(took time.Duration) {
	next := int64(took)
	if old := t.mean.Load(); old > 0 {
		next = old + (next-old)/4
	}
	t.mean.Store(max(next, 1)) // a measurement lost in a race does no harm
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

// shortTrip is the limit of a near server. Even the few round trips of a new
// connection cost no try there.
const shortTrip = 50 * time.Millisecond

// patience is limit, or longer if the server is too far away for that. A nil
// trip stands for a near server.
func (t *trip) patience(limit time.Duration) time.Duration {
	if t == nil {
		return limit
	}
	return max(limit, min(3*time.Duration(t.mean.Load()), dialLimit))
}
