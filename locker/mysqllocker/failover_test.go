package mysqllocker_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/sqltest/sqlfault"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

// granting starts a server that knows the user app and its rights, and returns
// it with a database of an administrator. TestMain's server grants everything.
func granting(t *testing.T) (*sqltest.Server, *sql.DB) {
	t.Helper()
	server, err := sqltest.StartMariaDB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	admin := openAt(t, "root", server.Addr())
	exec(t, admin, "FLUSH PRIVILEGES", mysqllocker.New(admin).Schema(), "CREATE USER app@'%'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON guard.guard_lease TO app@'%'",
		"SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	return server, admin
}

// openAt opens the database of the server at addr.
func openAt(t *testing.T, user, addr string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", user+"@tcp("+addr+")/guard")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestAnOldPrimaryThatAnswersIsLeft(t *testing.T) {
	old, admin := granting(t)
	next, _ := granting(t)
	primary, err := sqltest.NewPrimary(t.Context(), old.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(primary.Close)
	for name, newLocker := range map[string]func() locker.Locker{
		"the caller's pool": func() locker.Locker {
			db := openAt(t, "app", primary.Addr())
			db.SetMaxIdleConns(20)
			return mysqllocker.New(db)
		},
		"an address": func() locker.Locker {
			l, err := locker.FromDSN("mysql://app@" + primary.Addr() + "/guard")
			if err != nil {
				t.Fatal(err)
			}
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			primary.Move(old.Addr())
			exec(t, admin, "SET GLOBAL read_only = 0")
			sqlfault.Failover(t, newLocker, func() {
				exec(t, admin, "SET GLOBAL read_only = 1")
				primary.Move(next.Addr())
			})
		})
	}
}

func TestTheErrorOfAReadOnlyServerSaysThatItAnswered(t *testing.T) {
	server, admin := granting(t)
	exec(t, admin, "SET GLOBAL read_only = 1")
	found, err := checked(t, openAt(t, "app", server.Addr()))
	has(t, found, err, mysqllocker.FindingReadOnly)
	if !strings.Contains(found[0].Text, "the server answered") {
		t.Errorf("%s: want that the server answered", found[0].Text)
	}
}
