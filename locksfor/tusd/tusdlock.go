// Package tusdlock lets tusd take the locks of uploads from a guard, so that
// several instances can serve one bucket.
//
//	composer := handler.NewStoreComposer()
//	store.UseIn(composer)
//	tusdlock.New(g).UseIn(composer)
package tusdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/go-lockguard/guard"
)

// Locker is a handler.Locker. Its methods are safe for concurrent use.
type Locker struct{ guard *guard.Guard }

// forever leaves the end of a wait to the context.
const forever = 365 * 24 * time.Hour

// New returns a Locker with the locks of g. A nil g is the default guard. The
// lock of an upload is guard.Key("tusd", id). Neither MaxWait nor MaxHold
// applies: tusd's AcquireLockTimeout ends a wait, and an upload takes what its
// client takes.
func New(g *guard.Guard) *Locker {
	return &Locker{g.With(guard.WithMaxWait(forever), guard.WithMaxHold(0))}
}

// UseIn makes composer use l.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// NewLock implements [handler.Locker].
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	return &lock{guard: l.guard, key: guard.Key("tusd", id)}, nil
}

// lock is the lock of one request. tusd calls Lock, and Unlock after it.
type lock struct {
	guard *guard.Guard
	key   string
	lease *guard.Lease
}

// Lock implements [handler.Lock]. Lock waits until ctx ends, and then returns
// handler.ErrLockTimeout. Other errors are those of [guard.Guard.Acquire].
// requestUnlock is called when the lease is lost, or another process or request
// waits for it.
func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	under, cancel := context.WithCancel(context.WithoutCancel(ctx)) // tusd cancels ctx when Lock returns
	waits := context.AfterFunc(ctx, cancel)
	lease, err := l.guard.Acquire(under, l.key)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, guard.ErrNotAcquired)):
		cancel()
		return handler.ErrLockTimeout
	case err != nil:
		cancel()
		return fmt.Errorf("tusdlock: %w", err)
	case !waits(): // ctx ended meanwhile
		_ = lease.Release(ctx)
		return handler.ErrLockTimeout
	}
	l.lease = lease
	go interrupt(lease, guard.Wanted(lease.Context()), requestUnlock)
	return nil
}

// interrupt calls requestUnlock when the lease is wanted or lost. It ends with
// the lease.
func interrupt(lease *guard.Lease, wanted <-chan struct{}, requestUnlock func()) {
	select {
	case <-wanted:
		requestUnlock()
	case <-lease.Context().Done():
		if errors.Is(context.Cause(lease.Context()), guard.ErrLeaseLost) {
			requestUnlock()
		}
	}
}

// Unlock implements [handler.Lock]. Unlock blocks for at most 1 s, with the
// errors of [guard.Lease.Release].
func (l *lock) Unlock() error { return l.lease.Release(l.lease.Context()) }
