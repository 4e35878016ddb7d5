// Package gooselock lets goose take its lock from a guard. So migrations run on
// one instance at a time on every database, also where goose has no lock of its
// own, or behind a pooler that breaks session locks.
//
//	once := g.With(guard.WithMaxWait(10 * time.Minute)) // the longest migration that others wait for
//	lock := goose.WithLocker(gooselock.New(once, guard.Key("migrations", "shop")))
//	p, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"), lock)
//	results, err := p.Up(ctx)
//
// goose cannot be told that its lease is lost. p.Up goes on then, and returns
// an error that Is [guard.ErrLeaseLost]. Where it must stop instead, run p.Up
// inside g.Do without a Locker: its context ends with the lease.
package gooselock

import (
	"context"
	"database/sql"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/leasequeue"
)

// Locker is a lock.Locker of goose. Its methods are safe for concurrent use.
type Locker struct {
	guard  *guard.Guard
	key    string
	leases leasequeue.Queue // of key
}

// New returns a Locker for goose.WithLocker. All instances that migrate one
// database must have the same key. A nil g is the default guard. MaxHold does
// not apply, because goose has no way to stop.
func New(g *guard.Guard, key string) *Locker {
	return &Locker{guard: g.With(guard.WithMaxHold(0)), key: key}
}

// Lock waits for the key as [guard.Guard.Acquire] does, with the same errors.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	lease, err := l.guard.Acquire(ctx, l.key)
	if err != nil {
		return err
	}
	l.leases.Put(l.key, lease)
	return nil
}

// Unlock releases the key. Unlock blocks for at most 1 s, with the errors of
// [guard.Lease.Release]: ErrLeaseLost says that another instance may have
// migrated at the same time. Without a lease it returns ErrNoLease.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	if lease := l.leases.Take(l.key); lease != nil {
		return lease.Release(ctx)
	}
	return guard.ErrNoLease
}
