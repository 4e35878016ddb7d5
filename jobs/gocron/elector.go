package gocronlock

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-lockguard/guard"
)

// ErrNotLeader is the error of [Elector.IsLeader] on all instances but one.
var ErrNotLeader = errors.New("gocronlock: another instance leads, or none")

// Elector is a [gocron.Elector]. Its methods are safe for concurrent use.
//
// [gocron.Elector]: https://pkg.go.dev/github.com/go-co-op/gocron/v2#Elector
type Elector struct {
	guard *guard.Guard
	key   string
	lease atomic.Pointer[guard.Lease] // nil while another instance leads
}

// NewElector returns an Elector for gocron.WithDistributedElector. All
// instances of the schedule must use the same key. Nobody is elected before
// [Elector.Lead] is called. A nil g is the default guard, looked up by Lead.
func NewElector(g *guard.Guard, key string) *Elector { return &Elector{guard: g, key: key} }

// Lead stands for election until ctx ends. It blocks so long, and longer only
// to release the key. When it returns this instance does not lead any more.
// Call it once, in a goroutine of its own, and wait for its end before the
// guard is closed. Its errors are those of [guard.Guard.Lead].
func (e *Elector) Lead(ctx context.Context) error {
	return e.guard.Lead(ctx, e.key, func(ctx context.Context) error {
		l, _ := guard.LeaseFrom(ctx) // Lead's
		e.lease.Store(l)
		defer e.lease.Store(nil)
		<-ctx.Done()
		return ctx.Err()
	})
}

// IsLeader implements gocron's Elector. It returns nil or [ErrNotLeader], and
// does not block. It looks at the clock, so it is right even if the process has
// just been paused.
func (e *Elector) IsLeader(context.Context) error {
	if l := e.lease.Load(); l == nil || l.Err() != nil {
		return ErrNotLeader
	}
	return nil
}
