package mysqllocker_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/sqltest/sqlfault"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

// granting starts a server that knows the user app and its rights, and returns
// it with a database of an administrator. TestMain's server grants everything.
func granting(t *testing.T) (*sqltest.Server, *sql.DB) {
	t.Helper()
	server, err := sqltest.StartMySQL()
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

// A renewal is a write and a read, perhaps on two connections.
func TestAnOldPrimaryDoesNotConfirmARenewal(t *testing.T) {
	old, admin := granting(t)
	next, _ := granting(t)
	c := &locker.Claim{Key: "k", Owner: strings.Repeat("o", locker.OwnerLen), TTL: time.Minute, Limit: 1}
	if a, err := opened(t, openAt(t, "app", old.Addr())).Acquire(t.Context(), c, locker.Try{}); !a.Acquired {
		t.Fatal(err)
	}
	exec(t, admin, "SET GLOBAL read_only = 1")

	way := &mixed{driver: admin.Driver(), next: "app@tcp(" + next.Addr() + ")/guard"}
	db := sql.OpenDB(way)
	t.Cleanup(func() { _ = db.Close() })
	l := opened(t, db)
	var conns []*sql.Conn
	for _, way.to = range []string{"app@tcp(" + old.Addr() + ")/guard", way.next} {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_ = conn.Close() // the pool lends the last one first
	}
	var err error
	l.Renew(t.Context(), []*locker.Claim{c}, func(_ int, e error) { err = e })
	if !errors.Is(err, locker.ErrLeaseLost) {
		t.Errorf("%v, want ErrLeaseLost: the new primary has no such lease", err)
	}
}

// opened returns a locker on db that a guard has opened.
func opened(t *testing.T, db *sql.DB) *mysqllocker.Locker {
	t.Helper()
	l := mysqllocker.New(db)
	testguard.New(t, l)
	return l
}

// mixed makes connections to one server and later to another. Those to the
// latter end with their first write.
type mixed struct {
	driver   driver.Driver
	to, next string
}

func (m *mixed) Driver() driver.Driver { return m.driver }

func (m *mixed) Connect(context.Context) (driver.Conn, error) {
	conn, err := m.driver.Open(m.to)
	if err != nil {
		return nil, err
	}
	return &writesOnce{conn, m.to == m.next, false}, nil
}

type writesOnce struct {
	driver.Conn

	once, over bool
}

func (c *writesOnce) IsValid() bool { return !c.over }

func (c *writesOnce) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.over = c.once
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *writesOnce) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}
