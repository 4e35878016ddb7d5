package sqlitelocker_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
	"github.com/go-lockguard/guard/internal/sqltest/sqlfault"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/sqlitelocker"
)

func dsn(file string) string {
	return "file:" + file + "?_pragma=journal_mode(wal)&_pragma=synchronous(normal)"
}

// open opens a database in file with the table.
func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlitelocker.New(db).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// newFile returns the name of a file that does not exist.
func newFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "locks.db")
}

func TestLocker(t *testing.T) {
	t.Helper()
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		file := newFile(t)
		return sqlitelocker.New(open(t, file)), sqlitelocker.New(open(t, file))
	})
}

func TestLockerOnADatabaseThatHangs(t *testing.T) {
	lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		t.Helper()
		file, fault := newFile(t), sqlfault.New()
		plain := open(t, file)
		db := sql.OpenDB(fault.Wrap(plain.Driver(), dsn(file)))
		t.Cleanup(func() { _ = db.Close() })
		return sqlitelocker.New(db), sqlitelocker.New(db), fault.Break
	}, lockertest.AtOnce(8))
}

func TestCloseGivesUpOnADatabaseThatHangs(t *testing.T) {
	file, fault := newFile(t), sqlfault.New()
	plain := open(t, file)
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(fault.Wrap(plain.Driver(), dsn(file)))
		defer db.Close()
		l := sqlitelocker.New(db)
		if err := l.Open(lockerkit.Deaf{}); err != nil {
			t.Fatal(err)
		}
		for _, owner := range []string{"abcdefghijklmnopqrstuv", "bcdefghijklmnopqrstuvw"} { // the second waits
			c := &locker.Claim{Key: "k", Owner: owner, TTL: time.Minute}
			if a, err := l.Acquire(t.Context(), c, locker.Try{Wait: true}); err != nil || !a.Acquired && !a.Queued {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		mend := fault.Break()
		defer mend()
		began := time.Now()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < locker.QueueLife || took > locker.QueueLife+5*time.Second {
			t.Errorf("Close took %v, want about the %v for which a claim in the queue lives", took, locker.QueueLife)
		}
	})
}

func TestMigrateIsSafeBesideOthers(t *testing.T) {
	file := newFile(t)
	sqlcrowd.AtOnce(t, func() (do func() error) {
		db, err := sql.Open("sqlite", dsn(file))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return func() error { return sqlitelocker.New(db).Migrate(t.Context()) }
	})
}
