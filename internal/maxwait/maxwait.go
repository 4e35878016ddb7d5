// Package maxwait shortens the waits of an adapter whose framework does not
// allow those of its guard. Such a framework ends requests earlier, or never
// tells that a client has gone.
package maxwait

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard"
)

// Check panics if d is no limit for waits.
func Check(d time.Duration) {
	if d < 0 || d > 0 && d < time.Millisecond {
		panic("lockmw: the limit of waits is negative, or below 1 ms: is a unit missing?")
	}
}

// Cap is a guard and a limit for its waits. It is safe for concurrent use.
type Cap struct {
	guard, Short *guard.Guard // Short waits no longer than the limit
	limit        time.Duration
	told         atomic.Bool
}

// New returns the Cap of g, which may be nil for the default guard.
func New(g *guard.Guard, limit time.Duration) *Cap {
	return &Cap{guard: g, Short: g.With(guard.WithMaxWait(limit)), limit: limit}
}

// Cuts reports whether the guard would wait for longer than the limit, so that
// Short must be used. It logs the first time. It must be called at each
// request, because the default guard may be set late.
func (c *Cap) Cuts(ctx context.Context) bool {
	whole := c.guard.MaxWait()
	if whole <= c.limit {
		return false
	}
	if c.told.CompareAndSwap(false, true) {
		c.guard.Logger().InfoContext(ctx, "guard: waits are shorter on routes of this framework: "+
			"lockmw.WithMaxWait changes that",
			"guard", c.guard.Name(), "max_wait", c.limit, "guard_max_wait", whole)
	}
	return true
}
