package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// trusted is how long after an answer a connection is known not to be
	// forgotten, see [lockerkit.IdleLife].
	trusted = time.Second
	// probeLimit is what a request has at least that finds out whether it is.
	probeLimit = 100 * time.Millisecond
)

// idle knows when a server was heard of, and which connections to leave. It is
// safe for concurrent use. Its times count from begun, and 0 means never.
type idle struct {
	answered atomic.Int64 // the last request of a [Conns.Probe]
	failed   atomic.Int64 // when the last probe began that has left connections

	mu   sync.Mutex // guards left
	left map[string]*atomic.Int64
}

// at returns since when a connection to a node must have been heard of, or else
// it is not used again. node is "" without a cluster.
func (i *idle) at(node string) *atomic.Int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	left := i.left[node]
	if left == nil {
		if i.left == nil {
			i.left = make(map[string]*atomic.Int64)
		}
		left = &atomic.Int64{}
		i.left[node] = left
	}
	return left
}

// A Probe finds out whether a connection was forgotten.
type Probe struct {
	conns  *Conns
	cancel context.CancelFunc
	start  time.Duration // after begun
	limit  time.Duration
}

// Probe is for the requests of a caller that will not wait for long. If none
// was answered lately, the connections may have been forgotten, and the requests
// have a part of the time until ctx ends. Otherwise the probe is nil. It is nil
// too after a probe that has failed, because new connections need the time, and
// for a server that is too far away to answer in a part of it.
func (c *Conns) Probe(ctx context.Context) (context.Context, *Probe) {
	start := time.Since(begun)
	last := c.idle.answered.Load()
	if last == 0 || start-time.Duration(last) < trusted || !c.own || c.idle.failed.Load() > last {
		return ctx, nil
	}
	end, limited := ctx.Deadline()
	if !limited {
		return ctx, nil
	}
	trip := time.Duration(c.Trip.mean.Load())
	limit := min(time.Until(end)/2, max(probeLimit, 4*trip))
	if 2*trip > limit {
		return ctx, nil
	}
	short, cancel := context.WithTimeout(ctx, limit)
	return short, &Probe{c, cancel, start, limit}
}

// Answered notes that requests of such a caller were answered.
func (c *Conns) Answered() { c.idle.answered.Store(int64(time.Since(begun))) }

// End ends the probe, whose requests for name ended with err. If they ran into
// their limit, no connection to the node of name is used again that has carried
// nothing meanwhile. The next request then gets a new one.
func (p *Probe) End(name string, err error) {
	p.cancel()
	switch {
	case err == nil:
		p.conns.Answered()
	case time.Since(begun)-p.start > p.limit*9/10: // a read may end a little earlier
		p.conns.idle.at(p.conns.Node(name)).Store(int64(p.start))
		p.conns.idle.failed.Store(int64(p.start))
	}
}
