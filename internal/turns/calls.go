package turns

import (
	"sync"
	"sync/atomic"
)

// calls counts the calls of an engine, which wait or hold. It turns new ones
// away once it is shut. Both channels must be made. Its methods are safe for
// concurrent use.
type calls struct {
	closing  chan struct{} // closed by shut
	idle     chan struct{} // closed when it is shut and no call is left
	count    atomic.Int64  // of the calls; shut adds shutCount
	shutOnce sync.Once
	idleOnce sync.Once
}

// shutCount is larger than any possible number of calls, so a count from it on
// means shut.
const shutCount = 1 << 62

// enter counts a call until its leave. It returns false if calls are shut, and
// the caller must not call leave then.
func (c *calls) enter() bool {
	if c.count.Add(1) < shutCount {
		return true
	}
	c.leave()
	return false
}

// leave ends what enter began. A call that enter turned away may come here
// after the last real one.
func (c *calls) leave() {
	if c.count.Add(-1) == shutCount {
		c.idleOnce.Do(func() { close(c.idle) })
	}
}

// shut turns new calls away. It does not wait for the others.
func (c *calls) shut() {
	c.shutOnce.Do(func() {
		close(c.closing)
		c.count.Add(shutCount)
		c.enter() // turned away, and leaves: if it was the last, calls are idle
	})
}
