package mysqllocker_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
	_ "github.com/go-lockguard/guard/locker/mysqllocker/mysqldsn"
)

// checked opens a locker on db and returns what Check finds.
func checked(t *testing.T, db *sql.DB, opts ...mysqllocker.Option) ([]locker.Finding, error) {
	t.Helper()
	l := mysqllocker.New(db, opts...)
	testguard.New(t, l)
	return locker.Findings(l.Check(t.Context(), time.Minute))
}

// measured are the findings that a busy machine brings by itself. Tests that do
// not name them take no notice of them.
var measured = []string{mysqllocker.FindingPrepare, mysqllocker.FindingRoundTrip}

// has fails the test unless exactly the findings of these names are there.
func has(t *testing.T, found []locker.Finding, err error, names ...string) {
	t.Helper()
	var got []string
	for _, f := range found {
		if slices.Contains(names, f.Name) || !slices.Contains(measured, f.Name) {
			got = append(got, f.Name)
		}
		if !slices.Contains(mysqllocker.New(nil).Capabilities().Findings, f.Name) {
			t.Errorf("Findings lack %s", f.Name)
		}
	}
	if err != nil || !slices.Equal(got, names) {
		t.Errorf("%+v, %v; want %v", found, err, names)
	}
}

func exec(t *testing.T, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string,
) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// TestRights has a server of its own, because it turns the grants on that the
// other tests go without.
func TestRights(t *testing.T) {
	server, err := sqltest.StartMySQL()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	as := func(user string) *sql.DB {
		address := strings.NewReplacer("mysql://guard@", user+"@tcp(", "/guard", ")/guard").Replace(server.URL)
		db, err := sql.Open("mysql", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	admin, err := as("root").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	exec(t, admin,
		"FLUSH PRIVILEGES", "SET GLOBAL innodb_flush_log_at_trx_commit = 1", mysqllocker.New(as("root")).Schema(),
		"CREATE USER app@'%', reader@'%'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON guard.guard_lease TO app@'%'",
		"GRANT SELECT ON guard.guard_lease TO reader@'%'",
		"ALTER USER app@'%' IDENTIFIED BY 's/c:r@e#t?'",
	)
	byAddress(t, server.URL)
	exec(t, admin, "ALTER USER app@'%' IDENTIFIED BY ''")
	found, err := checked(t, as("app"))
	has(t, found, err)
	found, err = checked(t, as("reader"))
	has(t, found, err, mysqllocker.FindingRights)

	g, err := guard.New(mysqllocker.New(as("reader")), guard.WithMaxWait(time.Hour)) // which no test has
	if err != nil {
		t.Fatal(err)
	}
	err = g.Do(t.Context(), "k", func(context.Context) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "GRANT SELECT, INSERT") {
		t.Errorf("%v, want an error at once that names the rights", err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}

	exec(t, admin, "SET GLOBAL read_only = 1")
	found, err = checked(t, as("app"))
	has(t, found, err, mysqllocker.FindingReadOnly)
}

// byAddress locks by the address of a user with a password, and by one with a
// wrong password.
func byAddress(t *testing.T, url string) {
	t.Helper()
	for _, c := range []struct{ password, finding string }{{"s%2Fc:r%40e%23t%3F", ""}, {"secret", "rights"}} {
		l, err := locker.FromDSN(strings.Replace(url, "guard@", "app:"+c.password+"@", 1))
		if err != nil {
			t.Fatal(err)
		}
		g, err := guard.New(l, guard.WithTTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		err = l.(*mysqllocker.Locker).Check(t.Context(), time.Minute)
		found, err2 := locker.Findings(err)
		if c.finding == "" {
			has(t, found, err2)
		} else {
			has(t, found, err2, c.finding)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v shows the password", err)
		}
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckNamesWhatToChange(t *testing.T) {
	db := open(t)
	exec(t, db, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	found, err := checked(t, db, newTable(t, db))
	has(t, found, err, mysqllocker.FindingDurability)
	exec(t, db, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	found, err = checked(t, db, newTable(t, db))
	has(t, found, err)
	found, err = checked(t, db, mysqllocker.WithTable("nobody_made_it"))
	has(t, found, err, mysqllocker.FindingSchema)

	lazy, err := sql.Open("mysql", dsn+"?autocommit=0")
	if err != nil {
		t.Fatal(err)
	}
	defer lazy.Close()
	found, err = checked(t, lazy, newTable(t, db))
	has(t, found, err, mysqllocker.FindingAutocommit)
}

// TestAnyIsolationLevelWillDo relies on requests that are one statement each.
func TestAnyIsolationLevelWillDo(t *testing.T) {
	for _, level := range []string{"READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"} {
		db, err := sql.Open("mysql", dsn+"?tx_isolation='"+level+"'")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var got string
		if err := db.QueryRowContext(t.Context(), "SELECT @@tx_isolation").Scan(&got); err != nil || got != level {
			t.Fatalf("the level is %s, %v; want %s", got, err, level)
		}
		name := newTable(t, db)
		inTurn(t, mysqllocker.New(db, name), mysqllocker.New(db, name))
	}
}

// inTurn has callers of two lockers count on one key.
func inTurn(t *testing.T, lockers ...*mysqllocker.Locker) {
	t.Helper()
	const callers, sections = 4, 5
	var all sync.WaitGroup
	var count atomic.Int64 // read and written apart, so that two at once lose one
	section := func(context.Context) error {
		count.Store(count.Load() + 1)
		return nil
	}
	for _, l := range lockers {
		g, err := guard.New(l, guard.WithTTL(2*time.Minute), guard.WithMaxWait(5*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.WithoutCancel(t.Context()))
		for range callers {
			all.Go(func() {
				for range sections {
					if err := g.Do(t.Context(), "k", section); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if want := len(lockers) * callers * sections; count.Load() != int64(want) {
		t.Errorf("%d sections were counted, want %d", count.Load(), want)
	}
}

func TestWrongSettingsAreRefusedByGuardNew(t *testing.T) {
	for _, l := range []*mysqllocker.Locker{
		mysqllocker.New(nil), mysqllocker.New(new(sql.DB), mysqllocker.WithTable("a; DROP TABLE b")),
	} {
		if _, err := guard.New(l); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%v, want ErrInvalidOption", err)
		}
	}
}

// Since MariaDB 12.0.1 the value of read_only is a word.
func TestAServerIsReadOnlyHoweverItsVersionSaysSo(t *testing.T) {
	db := open(t)
	for value, want := range map[string]bool{
		"0": false, "1": true, "'OFF'": false, "'ON'": true, "'NO_LOCK'": true, "'NO_LOCK_NO_ADMIN'": true,
	} {
		var got bool
		query := "SELECT " + strings.ReplaceAll(mysqllocker.ReadOnly, "@@read_only", value)
		if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("read_only is %s: %t, %v, want %t", value, got, err, want)
		}
	}
}
