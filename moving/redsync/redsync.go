// Package redsync has the API of github.com/go-redsync/redsync/v4 for one
// server over a guard, for code that moves. Change the import, and give New the
// client of go-redis in place of a pool. go fix -inline of Go 1.26 then writes
// the options as guard's:
//
//	m := rs.NewMutex("lock:"+sku, redsync.WithExpiry(10*time.Second), redsync.WithTries(1))
//	m := rs.NewMutex("lock:"+sku, guard.WithTTL(10*time.Second), guard.WithMaxWait(0*redsync.Pause))
//
// Keys have the names that they had, so old and new processes exclude each
// other, if redsync has that one server too. What differs from redsync:
//
//   - A mutex is renewed until it is unlocked, for at most MaxHold (60 s). Extend
//     only tells whether it is held. The expiry is how long a crash blocks others.
//   - Waiters are served in order. Tries say only for how long they wait.
//   - Errors are compared by errors.Is.
//   - There is no Value, WithValue or other option.
package redsync

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The errors of redsync, as guard has them.
var (
	ErrFailed             = guard.ErrNotAcquired
	ErrExtendFailed       = guard.ErrLeaseLost
	ErrLockAlreadyExpired = guard.ErrLeaseLost
)

// ErrTaken is the error of a mutex that somebody else holds.
//
//go:fix inline
type ErrTaken = guard.HeldError //nolint:errname // redsync's name

// Pause is redsync's mean pause between two tries.
const Pause = 150 * time.Millisecond

// Option is an option of a mutex.
//
//go:fix inline
type Option = guard.Option

// WithExpiry sets how long a crash blocks others, from 100 ms on. The default
// is 8 s.
//
//go:fix inline
func WithExpiry(d time.Duration) guard.Option { return guard.WithTTL(d) }

// WithTries sets for how long a mutex waits, as the tries after the first would
// take. The default is 32. NewMutex panics if n is less than 1.
//
//go:fix inline
func WithTries(n int) guard.Option { return guard.WithMaxWait(time.Duration(n-1) * Pause) }

// Redsync makes mutexes. Its methods are safe for concurrent use.
type Redsync struct{ Guard *guard.Guard }

// New returns a Redsync for the server and database of the old mutexes. Each
// process makes one, because its mutexes share connections and waiters, and
// ends it by r.Guard.Close. New sends nothing. New panics if rdb is a client
// that redislocker.New refuses.
func New(rdb redis.UniversalClient) *Redsync {
	asItIs := func(name string) string { return name }
	names := redislocker.WithKeyNames(asItIs)
	g, err := guard.New(redislocker.New(rdb, names), guard.WithTTL(8*time.Second), guard.WithMaxWait(31*Pause))
	if err != nil {
		panic(err)
	}
	return &Redsync{g}
}

// NewMutex returns a mutex. NewMutex panics if an option is invalid.
func (r *Redsync) NewMutex(name string, options ...guard.Option) *Mutex {
	return &Mutex{guard: r.Guard.With(options...), name: name}
}

// Mutex is a lock. As in redsync, its methods are called one at a time.
type Mutex struct {
	guard *guard.Guard
	name  string
	lease *guard.Lease // the last one; nil before the first
}

// Name returns the name of the mutex.
func (m *Mutex) Name() string { return m.name }

// LockContext waits for the mutex, with the errors of [guard.Guard.Acquire].
func (m *Mutex) LockContext(ctx context.Context) error {
	return m.keep(m.guard.Acquire(ctx, m.name))
}

// TryLockContext is LockContext for one attempt, with the errors of
// [guard.Guard.TryAcquire].
func (m *Mutex) TryLockContext(ctx context.Context) error {
	return m.keep(m.guard.TryAcquire(ctx, m.name))
}

func (m *Mutex) keep(lease *guard.Lease, err error) error {
	if err == nil {
		m.lease = lease
	}
	return err
}

// UnlockContext releases the mutex. UnlockContext blocks for at most 1 s, with
// the errors of [guard.Lease.Release], or ErrNoLease if it was never locked.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	if m.lease == nil {
		return false, guard.ErrNoLease
	}
	err := m.lease.Release(ctx)
	return err == nil, err
}

// ExtendContext returns whether the mutex is held, or why it is not. The guard
// extends it by itself, so ExtendContext does not block.
func (m *Mutex) ExtendContext(context.Context) (bool, error) {
	if m.lease == nil {
		return false, guard.ErrNoLease
	}
	err := m.lease.Err()
	return err == nil, err
}

// Until returns until when the mutex may be trusted unless it is extended. It
// is the zero time if the mutex was never locked.
func (m *Mutex) Until() time.Time {
	if m.lease == nil {
		return time.Time{}
	}
	return m.lease.Deadline()
}

// Lock is LockContext without an end but that of the tries.
//
//go:fix inline
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) } //nolint:forbidigo // redsync's API

// TryLock is TryLockContext without a context.
//
//go:fix inline
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) } //nolint:forbidigo // redsync's API

// Unlock is UnlockContext without a context.
//
//go:fix inline
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) } //nolint:forbidigo // redsync's API

// Extend is ExtendContext without a context.
//
//go:fix inline
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) } //nolint:forbidigo // redsync's API
