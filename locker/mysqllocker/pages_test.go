package mysqllocker_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

// The program of docs/stores.md.

func inMySQL(ctx context.Context, name, sku string, sell func(context.Context) error) error {
	// app:secret@tcp(db:3306)/app?interpolateParams=true&innodb_lock_wait_timeout=1
	db, err := sql.Open("mysql", name)
	if err != nil {
		return err
	}
	defer db.Close()
	store := mysqllocker.New(db)
	if err := store.Migrate(ctx); err != nil { // or run store.Schema() in your migrations
		return err
	}
	g, err := guard.New(store)
	if err != nil {
		return err
	}
	defer g.Close(ctx) // before the database
	return g.Do(ctx, guard.Key("stock", sku), sell)
}

func TestTheProgramOfThePageRuns(t *testing.T) {
	sold := false
	sell := func(context.Context) error {
		sold = true
		return nil
	}
	name := dsn + "?interpolateParams=true&innodb_lock_wait_timeout=1"
	if err := inMySQL(t.Context(), name, "42", sell); err != nil || !sold {
		t.Errorf("%v, sold: %v", err, sold)
	}
}

// The two deploys of docs/migrating.md.

var errBusy = errors.New("busy")

//nolint:errcheck // as people write it
func withGetLock(ctx context.Context, db *sql.DB, sku string, deduct func(context.Context, string) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var got sql.NullInt64
	// MySQL and MariaDB: the lock belongs to this connection.
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 3)", "lock:sku:"+sku).Scan(&got)
	if err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errBusy
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", "lock:sku:"+sku)
	return deduct(ctx, sku) // not told if the connection is lost meanwhile
}

// In the first deploy, the function of a guard takes the old lock too. Then old
// and new instances exclude each other.
func TestBothLocksExcludeTheOldCode(t *testing.T) {
	db := open(t)
	g := testguard.Patient(t, mysqllocker.New(db, newTable(t, db)))
	var inside, sections atomic.Int64
	deduct := func(context.Context, string) error {
		if inside.Add(1) > 1 {
			t.Error("two are in the section")
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
		sections.Add(1)
		return nil
	}
	old := func(ctx context.Context) error {
		err := errBusy
		for errors.Is(err, errBusy) {
			err = withGetLock(ctx, db, "42", deduct)
		}
		return err
	}
	ends := make(chan error)
	const callers, each = 3, 10
	for _, call := range []func() error{
		func() error { return old(t.Context()) },
		func() error { return g.Do(t.Context(), guard.Key("stock", "42"), old) },
	} {
		for range callers {
			go func() {
				for range each {
					if err := call(); err != nil {
						ends <- err
						return
					}
				}
				ends <- nil
			}()
		}
	}
	for range 2 * callers {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if n := sections.Load(); n != 2*callers*each {
		t.Errorf("%d sections, want %d", n, 2*callers*each)
	}
}
