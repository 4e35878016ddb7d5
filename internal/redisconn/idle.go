package redisconn

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// trusted is how long after an answer a connection is known not to be
	// forgotten, see [lockerkit.IdleLife].
	trusted = time.Second
	// probe is what a request has at least that finds out whether it is.
	probe = 100 * time.Millisecond
)

// idle knows when the server was heard of, and which connections to leave. It is
// safe for concurrent use. Its times count from begun, and 0 means never.
type idle struct {
	answered atomic.Int64 // the last request of a [Conns.Probe]
	left     atomic.Int64 // what has not been heard since then is not used again
}

// Probe is for the requests of a caller that will not wait for long. If no such
// request was answered lately, the connections may have been forgotten, and the
// first request has a part of the time until ctx ends. After the requests the
// caller calls done with their error. If they ran into that limit, no
// connection is used again that has carried nothing meanwhile, so that the next
// request gets a new one.
func (c *Conns) Probe(ctx context.Context) (_ context.Context, done func(err error)) {
	start := time.Since(begun)
	end, limited := ctx.Deadline()
	last := c.idle.answered.Load()
	answered := func(err error) {
		if err == nil {
			c.idle.answered.Store(int64(time.Since(begun)))
		}
	}
	if !c.own || !limited || last == 0 || start-time.Duration(last) < trusted {
		return ctx, answered
	}
	limit := min(time.Until(end)/2, max(probe, 4*time.Duration(c.Trip.mean.Load())))
	short, cancel := context.WithTimeout(ctx, limit)
	return short, func(err error) {
		if answered(err); err != nil && time.Since(begun)-start > limit*9/10 { // a read may end a little earlier
			c.idle.left.Store(int64(start))
		}
		cancel()
	}
}
