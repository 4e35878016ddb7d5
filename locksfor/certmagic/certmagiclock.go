// Package certmagiclock gives a certmagic.Storage the locks of a guard. So one
// instance at a time asks for a certificate, also where the storage has no lock
// that a crash ends.
//
//	certmagic.Default.Storage = certmagiclock.New(g, storage)
package certmagiclock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/go-lockguard/guard"
)

// Storage is a certmagic.Storage whose locks are those of a guard. All else is
// the storage within, whose own locks are not taken. Its methods are safe for
// concurrent use.
type Storage struct {
	certmagic.Storage

	guard *guard.Guard

	mu     sync.Mutex                // guards leases, and is never held across I/O
	leases map[string][]*guard.Lease // by name, the oldest first; all but the last were lost
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
	return &Storage{Storage: s, guard: g, leases: map[string][]*guard.Lease{}}
}

// Lock implements [certmagic.Locker]. Lock waits for the name until ctx ends,
// with the errors of [guard.Guard.Acquire].
func (s *Storage) Lock(ctx context.Context, name string) error {
	lease, err := s.guard.Acquire(ctx, guard.Key("certmagic", name))
	if err != nil {
		return err
	}
	s.keep(name, lease)
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
	s.keep(name, lease)
	return true, nil
}

// RenewLockLease implements [certmagic.LockLeaseRenewer], which certmagic calls
// before each attempt. The guard renews leases by itself, so RenewLockLease
// only returns the error of a lease that is lost, and does not block. certmagic
// does not begin the attempt then.
func (s *Storage) RenewLockLease(_ context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.leases[name]
	if len(leases) == 0 {
		return guard.ErrNoLease
	}
	return leases[0].Err()
}

// Unlock implements [certmagic.Locker]. Unlock blocks for at most 1 s, with the
// errors of [guard.Lease.Release]. Without a lease it returns nil.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	leases := s.leases[name]
	switch len(leases) {
	case 0:
		s.mu.Unlock()
		return nil
	case 1:
		delete(s.leases, name)
	default:
		s.leases[name] = leases[1:]
	}
	s.mu.Unlock()
	return leases[0].Release(ctx)
}

func (s *Storage) keep(name string, lease *guard.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[name] = append(s.leases[name], lease)
}
