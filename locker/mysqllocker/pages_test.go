package mysqllocker_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
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
	old := func(ctx context.Context, deduct func(context.Context, string) error) error {
		err := errBusy
		for errors.Is(err, errBusy) {
			err = withGetLock(ctx, db, "42", deduct)
		}
		return err
	}
	sqlcrowd.Exclude(t, old, func(ctx context.Context, deduct func(context.Context, string) error) error {
		return g.Do(ctx, guard.Key("stock", "42"), func(ctx context.Context) error { return old(ctx, deduct) })
	})
}
