// Package certmagiclock gives a certmagic.Storage the locks of a guard. So one
// instance at a time asks for a certificate, also where the storage has no lock
// that a crash ends.
//
//	certmagic.Default.Storage = certmagiclock.New(g, storage)
package certmagiclock

import (
	"context"
	"errors"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/leasequeue"
)

// Storage is a certmagic.Storage whose locks are those of a guard. All else is
// the storage within, whose own locks are not taken. Its methods are safe for
// concurrent use.
type Storage struct {
	certmagic.Storage

	guard  *guard.Guard
	leases leasequeue.Queue // by name
}

var _ interface {
	certmagic.Storage
	certmagic.TryLocker
	certmagic.LockLeaseRenewer
} = (*Storage)(nil)

// forever leaves the end of a wait to the context.
const forever = 365 * 24 * time.Hour

// New returns s with the locks of g. A nil g is the default guard. The lock of
// a name is guard.Key("certmagic", name). Neither MaxWait nor MaxHold applies:
// certmagic's contexts end a wait, and an order takes what the authority takes.
func New(g *guard.Guard, s certmagic.Storage) *Storage {
	g = g.With(guard.WithMaxWait(forever), guard.WithMaxHold(0))
	return &Storage{Storage: s, guard: g}
}

// Lock implements [certmagic.Locker]. Lock waits for the name until ctx ends,
// with the errors of [guard.Guard.Acquire].
func (s *Storage) Lock(ctx context.Context, name string) error {
	lease, err := s.guard.Acquire(ctx, guard.Key("certmagic", name))
	if err != nil {
		return err
	}
	s.leases.Put(name, lease)
	return nil
}

// TryLock implements [certmagic.TryLocker]. TryLock blocks for one attempt.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := s.guard.TryAcquire(ctx, guard.Key("certmagic", name))
	if errors.Is(err, guard.ErrNotAcquired) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	s.leases.Put(name, lease)
	return true, nil
}

// RenewLockLease implements [certmagic.LockLeaseRenewer], which certmagic calls
// before each attempt. The guard renews leases by itself, so RenewLockLease
// only returns the error of a lease that is lost, and does not block. certmagic
// does not begin the attempt then.
func (s *Storage) RenewLockLease(_ context.Context, name string, _ time.Duration) error {
	if lease := s.leases.Oldest(name); lease != nil {
		return lease.Err()
	}
	return guard.ErrNoLease
}

// Unlock implements [certmagic.Locker]. Unlock blocks for at most 1 s, with the
// errors of [guard.Lease.Release]. Without a lease it returns nil.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	if lease := s.leases.Take(name); lease != nil {
		return lease.Release(ctx)
	}
	return nil
}
