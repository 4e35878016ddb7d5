package redisconn

import (
	"context"
	"sync/atomic"
	"time"
)

// Trip is the length of a round trip. It is a moving average, so that one slow
// answer does not count for much. A Trip is safe for concurrent use.
type Trip struct{ mean atomic.Int64 } // ns; 0: not known

// note adds a measurement to the average.
func (t *Trip) note(took time.Duration) {
	next := int64(took)
	if old := t.mean.Load(); old > 0 {
		next = old + (next-old)/4
	}
	t.mean.Store(max(next, 1)) // a measurement lost in a race does no harm
}

// Tight reports whether two round trips, one after the other, may be too long
// for ctx.
func (t *Trip) Tight(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && 4*time.Duration(t.mean.Load()) > time.Until(end)
}

// near reports whether a round trip is known to take less time than the server
// needs for a full batch.
func (t *Trip) near() bool { return t.within(time.Millisecond) }

// within reports whether a round trip is known to take less time than limit.
func (t *Trip) within(limit time.Duration) bool {
	mean := time.Duration(t.mean.Load())
	return mean > 0 && mean < limit
}

// Patience is limit, or longer if the server is too far away for that. A nil
// Trip stands for a near server.
func (t *Trip) Patience(limit time.Duration) time.Duration {
	if t == nil {
		return limit
	}
	return max(limit, min(3*time.Duration(t.mean.Load()), dialLimit))
}
