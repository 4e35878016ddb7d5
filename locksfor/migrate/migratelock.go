// Package migratelock lets golang-migrate take its lock from a guard. So
// migrations run on one instance at a time on every database, also where the
// driver has no lock, or behind a pooler that breaks session locks.
//
//	driver, err := postgres.WithInstance(db, &postgres.Config{})
//	once := g.With(guard.WithMaxWait(time.Minute))
//	locked := migratelock.New(once, guard.Key("migrations", "shop"), driver)
//	m, err := migrate.NewWithDatabaseInstance("file://migrations", "shop", locked)
//	m.LockTimeout = 2 * time.Minute // longer than MaxWait
//	err = m.Up()
package migratelock

import (
	"context"
	"errors"
	"sync"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/go-lockguard/guard"
)

// Driver is a database.Driver whose lock is that of a guard. All else is the
// driver within, whose own lock is not taken. Its methods are safe for
// concurrent use.
type Driver struct {
	database.Driver

	guard *guard.Guard
	key   string
	ctx   context.Context // of the waits and of the lease; ends with Close
	close context.CancelFunc

	mu    sync.Mutex   // guards lease, and is never held across I/O
	lease *guard.Lease // nil while the lock is not held
}

// New returns d with the lock of g on key. All instances that migrate one
// database must have the same key. A nil g is the default guard. MaxHold does
// not apply, because golang-migrate has no way to stop.
//
// golang-migrate cannot end a wait. If m.LockTimeout ends before MaxWait, the
// lock may come later and be held until m.Close.
func New(g *guard.Guard, key string, d database.Driver) *Driver {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // golang-migrate has no contexts
	return &Driver{Driver: d, guard: g.With(guard.WithMaxHold(0)), key: key, ctx: ctx, close: cancel}
}

// Lock implements [database.Driver]. Lock waits until MaxWait is over. If the
// key is still held, the error Is [database.ErrLocked] and
// [guard.ErrNotAcquired]. Otherwise it has the errors of
// [guard.Guard.Acquire].
func (d *Driver) Lock() error {
	if d.held() != nil {
		return database.ErrLocked
	}
	lease, err := d.guard.Acquire(d.ctx, d.key)
	if errors.Is(err, guard.ErrNotAcquired) {
		return errors.Join(database.ErrLocked, err)
	} else if err != nil {
		return err
	}
	d.hold(lease)
	if d.ctx.Err() != nil { // Close may not have seen it
		return errors.Join(database.ErrLocked, d.Unlock())
	}
	return nil
}

// SetVersion implements [database.Driver]. Before each migration golang-migrate
// calls it with dirty. If the lease is lost by then, SetVersion returns an
// error that Is [guard.ErrLeaseLost], and the migration does not begin.
func (d *Driver) SetVersion(version int, dirty bool) error {
	if lease := d.held(); dirty && lease != nil {
		if err := lease.Err(); err != nil {
			return err
		}
	}
	return d.Driver.SetVersion(version, dirty)
}

// Unlock implements [database.Driver]. Unlock blocks for at most 1 s, with the
// errors of [guard.Lease.Release]. Without a lease it returns
// database.ErrNotLocked.
func (d *Driver) Unlock() error {
	lease := d.hold(nil)
	if lease == nil {
		return database.ErrNotLocked
	}
	return lease.Release(d.ctx)
}

// Close implements [database.Driver]. Close ends waits and releases the lock.
func (d *Driver) Close() error {
	d.close()
	if err := d.Unlock(); err != nil && !errors.Is(err, database.ErrNotLocked) {
		return errors.Join(err, d.Driver.Close())
	}
	return d.Driver.Close()
}

func (d *Driver) held() *guard.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lease
}

// hold keeps lease and returns the one before.
func (d *Driver) hold(lease *guard.Lease) (before *guard.Lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, d.lease = d.lease, lease
	return before
}
