package gooselock_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	_ "modernc.org/sqlite"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/locker/redislocker"
	gooselock "github.com/go-lockguard/guard/locksfor/goose"
)

const key = "migrations"

// on returns a guard of an own process on the store of l, closed when t ends.
func on(t *testing.T, l guard.Locker) *guard.Guard {
	t.Helper()
	g := testguard.Patient(t, l)
	return g
}

func TestGoosesOwnTestOfLockers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlocker.New()
		on(t, store)
		locktesting.TestConcurrentLocking(t, nil, func(t *testing.T) lock.Locker {
			t.Helper()
			return gooselock.New(on(t, store.Peer()), key)
		}, time.Second)
	})
}

func TestGoosesOwnTestOfProvidersOnRedis(t *testing.T) {
	server := redistest.Start(t)
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	steps := fstest.MapFS{
		"1_table.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER);")},
		"2_row.sql":   {Data: []byte("-- +goose Up\nINSERT INTO orders VALUES (1);")},
	}
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		t.Helper()
		g := on(t, redislocker.New(redistest.Client(t, server.Addr)))
		p, err := goose.NewProvider(goose.DialectSQLite3, db, steps, goose.WithLocker(gooselock.New(g, key)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
	rows := 0
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

func TestALostLeaseIsToldByItsOwnUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		l := gooselock.New(g.Guard, key)
		if err := l.Unlock(t.Context(), nil); !errors.Is(err, guard.ErrNoLease) {
			t.Errorf("without a lock: %v", err)
		}
		if err := l.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		g.Lose(key)
		time.Sleep(10 * time.Second) // a renewal
		if err := l.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := l.Unlock(t.Context(), nil); !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("the first one: %v", err)
		}
		if err := l.Unlock(t.Context(), nil); err != nil {
			t.Errorf("the second one: %v", err)
		}
	})
}

func TestAHeldKeyEndsTheWaitAtMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, guard.WithMaxWait(time.Second))
		g.Hold(key)
		if err := gooselock.New(g.Guard, key).Lock(t.Context(), nil); !errors.Is(err, guard.ErrNotAcquired) {
			t.Error(err)
		}
	})
}
