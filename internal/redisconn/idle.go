package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

const (
	// trusted is how long after an answer a connection is known not to be
	// forgotten, see [lockerkit.IdleLife].
	trusted = time.Second
	// probeLimit is what a request has at least that finds out whether it is.
	probeLimit = 100 * time.Millisecond
	// doubtful is how many renewals in a row without an answer bring the
	// connections to a node into doubt. One alone may be a mere pause.
	doubtful = 2
)

// A liveness is when a node was heard of, and which connections to it to leave.
// Its times count from begun, and 0 means never.
type liveness struct {
	answered atomic.Int64 // the last request of a [Conns.Probe]
	// left is since when a connection must have been heard of, or else it is
	// not used again.
	left atomic.Int64

	mu      sync.Mutex // guards the fields below
	silent  int        // renewals since the last answer, each sent after the one before was given up
	givenUp time.Time  // when the last of them was
}

func newLiveness() *liveness { return &liveness{} }

// renewed notes whether the node has answered a renewal that was sent at the
// given time. All connections may have died without a word, in a NAT or behind
// a load balancer. Renewals that took one dead connection after the other would
// lose their leases, although the node is well.
func (s *liveness) renewed(sent time.Time, unanswered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !unanswered:
		s.silent = 0
	case !sent.Before(s.givenUp):
		s.silent, s.givenUp = s.silent+1, time.Now()
		if s.silent >= doubtful {
			s.left.Store(int64(sent.Sub(begun)))
		}
	}
}

// A Probe may find out whether a connection was forgotten.
type Probe struct {
	seen   *liveness
	cancel context.CancelFunc // nil: the requests have all their time
	start  time.Duration      // after begun
	limit  time.Duration
}

// Probe is for the requests to a node of a caller, which waits or will not do
// so for long. If the node has answered none lately, the connections may have
// been forgotten, and the requests of one that will not wait have a part of the
// time until ctx ends. They have all of it after a probe that has failed,
// because new connections need the time, and if the server is too far away to
// answer in a part of it.
func (c *Conns) Probe(ctx context.Context, node string, waits bool) (context.Context, Probe) {
	p := Probe{seen: c.logins.liveness.of(node, newLiveness), start: time.Since(begun)}
	last := p.seen.answered.Load()
	if waits || last == 0 || p.start-time.Duration(last) < trusted || !c.own || p.seen.left.Load() > last {
		return ctx, p
	}
	end, limited := ctx.Deadline()
	if !limited {
		return ctx, p
	}
	trip := time.Duration(c.Trip.mean.Load())
	p.limit = min(time.Until(end)/2, max(probeLimit, 4*trip))
	if 2*trip > p.limit {
		return ctx, p
	}
	ctx, p.cancel = context.WithTimeout(ctx, limits.Apart(p.limit))
	return ctx, p
}

// End ends the probe, whose requests ended with err. If they ran into their
// limit, no connection to the node is used again that has carried nothing
// meanwhile. The next request then gets a new one.
func (p *Probe) End(err error) {
	if p.cancel != nil {
		p.cancel()
	}
	switch {
	case err == nil:
		p.seen.answered.Store(int64(time.Since(begun)))
	case p.cancel != nil && time.Since(begun)-p.start > p.limit*9/10: // a read may end a little earlier
		p.seen.left.Store(int64(p.start))
	}
}
