package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-lockguard/guard"
)

// A locker has each run of a job happen once, on whichever instance comes
// first: a [gocron.Locker].
type locker struct{ guard *guard.Guard }

// newLocker keeps a job's key for apart after it began, so that an instance
// whose clock is behind by less finds it taken, even if the job was quick. It
// must be shorter than the time between two runs.
func newLocker(g *guard.Guard, apart time.Duration) locker {
	return locker{g.With(guard.WithMinHold(apart), guard.WithMaxHold(0))}
}

// Lock implements [gocron.Locker]. gocron skips the run if it fails: then
// another instance has it, or nobody can tell.
func (l locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lease, err := l.guard.TryAcquire(ctx, guard.Key("job", job))
	if err != nil {
		return nil, err
	}
	return lock{lease}, nil
}

type lock struct{ *guard.Lease }

// Unlock implements [gocron.Lock].
func (l lock) Unlock(ctx context.Context) error { return l.Release(ctx) }

// An elector has all jobs run on one instance, as long as that lives: a
// [gocron.Elector].
type elector struct {
	lease atomic.Pointer[guard.Lease] // nil on all the others
}

var errNotLeader = errors.New("another instance leads")

// lead stands for election until ctx ends. When it returns this instance does
// not lead any more.
func (e *elector) lead(ctx context.Context, g *guard.Guard) error {
	return g.Lead(ctx, guard.Key("scheduler"), func(ctx context.Context) error {
		l, _ := guard.LeaseFrom(ctx)
		e.lease.Store(l)
		defer e.lease.Store(nil)
		<-ctx.Done()
		return ctx.Err()
	})
}

// IsLeader implements [gocron.Elector]. It looks at the clocks, so it is right
// also if the process has just been paused.
func (e *elector) IsLeader(context.Context) error {
	if l := e.lease.Load(); l == nil || l.Err() != nil {
		return errNotLeader
	}
	return nil
}
