package mysqllocker_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
	"github.com/go-lockguard/guard/internal/sqltest/sqlfault"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

// dsn is that of the server which all tests share.
var dsn string

func TestMain(m *testing.M) {
	if process() {
		os.Exit(1)
	}
	server, err := sqltest.StartMySQL()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dsn = strings.NewReplacer("mysql://", "", "@", "@tcp(", "/guard", ")/guard").Replace(server.URL)
	code := m.Run()
	server.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// open opens the database of all tests.
func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

var tables atomic.Int64

// newTable makes a table that no other test uses.
func newTable(t *testing.T, db *sql.DB) mysqllocker.Option {
	t.Helper()
	name := mysqllocker.WithTable(fmt.Sprintf("lease_%d", tables.Add(1)))
	if err := mysqllocker.New(db, name).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLocker(t *testing.T) {
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		name := newTable(t, open(t))
		return mysqllocker.New(open(t), name), mysqllocker.New(open(t), name)
	})
}

func TestLockerOnAServerThatHangs(t *testing.T) {
	lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		t.Helper()
		plain, fault := open(t), sqlfault.New()
		name := newTable(t, plain)
		db := sql.OpenDB(fault.Wrap(plain.Driver(), dsn))
		t.Cleanup(func() { _ = db.Close() })
		return mysqllocker.New(db, name), mysqllocker.New(db, name), fault.Break
	}, lockertest.AtOnce(8))
}

func TestMigrateIsSafeBesideOthers(t *testing.T) {
	name := mysqllocker.WithTable(fmt.Sprintf("lease_%d", tables.Add(1)))
	sqlcrowd.AtOnce(t, func() (do func() error) {
		l := mysqllocker.New(open(t), name)
		return func() error { return l.Migrate(t.Context()) }
	})
}
