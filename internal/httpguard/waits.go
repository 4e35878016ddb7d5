package httpguard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard"
)

// Waits are a guard and a limit for its waits, for an adapter whose framework
// does not allow those of its guard. Such a framework ends requests earlier, or
// never tells that a client has gone. Waits is safe for concurrent use.
type Waits struct {
	guard, Short *guard.Guard // Short waits no longer than the limit
	limit        time.Duration
	told         atomic.Bool
}

// NewWaits returns the Waits of g, which may be nil for the default guard.
func NewWaits(g *guard.Guard, limit time.Duration) *Waits {
	return &Waits{guard: g, Short: g.With(guard.WithMaxWait(limit)), limit: limit}
}

// Cuts reports whether the guard would wait for longer than the limit, so that
// Short must be used. Cuts logs the first time. An adapter must call Cuts at each
// request, because the default guard may be set late.
func (w *Waits) Cuts(ctx context.Context) bool {
	whole := w.guard.MaxWait()
	if whole <= w.limit {
		return false
	}
	if w.told.CompareAndSwap(false, true) {
		w.guard.Logger().InfoContext(ctx, "guard: waits are shorter on routes of this framework: "+
			"lockmw.WithMaxWait changes that",
			"guard", w.guard.Name(), "max_wait", w.limit, "guard_max_wait", whole)
	}
	return true
}
