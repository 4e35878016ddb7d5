package migratelock_test

import (
	"errors"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	dbtest "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	migratelock "github.com/go-lockguard/guard/locksfor/migrate"
)

const key = "migrations"

func newStub(t *testing.T) *stub.Stub {
	t.Helper()
	d, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d.(*stub.Stub)
}

// migrator returns a Migrate with two migrations. The second is empty: of any
// other that is not run golang-migrate leaves a goroutine.
func migrator(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	src, err := iofs.New(fstest.MapFS{"1_a.up.sql": {Data: []byte("a")}, "2_b.up.sql": {}}, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("files", src, "shop", d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMigratesOwnTestOfDrivers(t *testing.T) {
	d := migratelock.New(guardtest.New(t, guard.WithMaxWait(0)).Guard, key, newStub(t))
	dbtest.Test(t, d, []byte("a"))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Lock(); err == nil {
		t.Error("locked after Close")
	}
}

// The stub is no database: without exclusion the race detector reports it.
func TestMigrationsRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, store := newStub(t), memlocker.New()
		var mu sync.Mutex // guards done
		done := 0
		var wg sync.WaitGroup
		for i := range 5 {
			l := guard.Locker(store)
			if i > 0 {
				l = store.Peer()
			}
			g := testguard.New(t, l)
			m := migrator(t, migratelock.New(g, key, db))
			wg.Go(func() {
				switch err := m.Up(); {
				case err == nil:
					mu.Lock()
					defer mu.Unlock()
					done++
				case !errors.Is(err, migrate.ErrNoChange):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute) // the timers of golang-migrate
		if done != 1 || !db.EqualSequence([]string{"a", ""}) {
			t.Errorf("%d have migrated: %q", done, db.MigrationSequence)
		}
	})
}

// losing loses the lease during the first migration.
type losing struct {
	*stub.Stub
	lose func()
}

func (l losing) SetVersion(version int, dirty bool) error {
	if !dirty {
		l.lose()
	}
	return l.Stub.SetVersion(version, dirty)
}

func TestALostLeaseBeginsNoMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, db := guardtest.New(t), newStub(t)
		m := migrator(t, migratelock.New(g.Guard, key, losing{db, func() {
			g.Lose(key)
			time.Sleep(10 * time.Second) // a renewal
		}}))
		if err := m.Up(); !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
		if v, dirty, _ := db.Version(); v != 1 || dirty || !db.EqualSequence([]string{"a"}) {
			t.Errorf("version %d, dirty %v: %q", v, dirty, db.MigrationSequence)
		}
		time.Sleep(time.Minute) // the timers of golang-migrate
	})
}

func TestCloseEndsAWaitAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, guard.WithMaxWait(time.Hour))
		holder, waiter := migratelock.New(g.Guard, key, newStub(t)), migratelock.New(g.Guard, key, newStub(t))
		if err := holder.Lock(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- waiter.Lock() }() // ends with Close
		synctest.Wait()
		if err := waiter.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, database.ErrLocked) {
			t.Errorf("the wait ended with %v", err)
		}
		if err := holder.Close(); err != nil {
			t.Error(err)
		}
		g.Hold(key)() // fails if the key is still held
	})
}
