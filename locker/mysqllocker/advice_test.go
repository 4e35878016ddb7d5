package mysqllocker_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/sqllease"
	"github.com/go-lockguard/guard/internal/sqltest/sqlfault"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

func TestAnErrorOfTheServerSaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		number  uint16
		message string
		verdict sqllease.Verdict
		want    string // "": what the verdict says
	}{
		{1040, "Too many connections", sqllease.Unavailable, "max_connections"},
		{1044, "Access denied for user to database", sqllease.NoRight, "or there is none of that name"},
		{1045, "Access denied for user", sqllease.NoRight, "the user or its password is wrong"},
		{1046, "No database selected", sqllease.NoTable, "name the database"},
		{1049, "Unknown database", sqllease.NoTable, "there is no such database"},
		{1054, "Unknown column", sqllease.NoTable, "drop it while no process uses it"},
		{1142, "CREATE command denied to user", sqllease.NoRight, "GRANT CREATE"},
		{1142, "UPDATE command denied to user", sqllease.NoRight, ""},
		{1146, "Table doesn't exist", sqllease.NoTable, ""},
		{1203, "User has already more than max_user_connections", sqllease.Unavailable, "max_user_connections"},
		{1205, "Lock wait timeout exceeded", sqllease.Again, "another transaction keeps rows"},
		{1290, "The server is running with the --read-only option", sqllease.ReadOnly, ""},
		{1290, "The server is running with the --super-read-only option", sqllease.ReadOnly, ""},
		{1290, "The server is running with the --skip-grant-tables option", sqllease.Unavailable, ""},
		{1698, "Access denied for user", sqllease.NoRight, "may not log in by a password"},
		{1792, "Cannot execute statement in a READ ONLY transaction", sqllease.ReadOnly, "remove that setting"},
		{1836, "Running in read-only mode", sqllease.ReadOnly, ""},
		{1969, "Query execution was interrupted", sqllease.Again, "another transaction keeps rows"},
	} {
		verdict, text := mysqllocker.Advice(&mysql.MySQLError{Number: c.number, Message: c.message})
		if verdict != c.verdict || !strings.Contains(text, c.want) || (text == "") != (c.want == "") {
			t.Errorf("%d %s: %v, %q; want %v, %q", c.number, c.message, verdict, text, c.verdict, c.want)
		}
	}
}

// migrates returns the error of Migrate at an address.
func migrates(t *testing.T, user, addr, database string, opts ...mysqllocker.Option) string {
	t.Helper()
	db, err := sql.Open("mysql", user+"@tcp("+addr+")/"+database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return fmt.Sprint(mysqllocker.New(db, opts...).Migrate(t.Context()))
}

func TestAWrongLoginOrDatabaseIsNoMissingTable(t *testing.T) {
	server, admin := granting(t)
	exec(t, admin, "CREATE USER maker@'%' IDENTIFIED BY 'right'",
		"CREATE TABLE guard.old (k VARBINARY(255) PRIMARY KEY)",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON guard.old TO app@'%'")
	for want, got := range map[string]string{
		"the user or its password is wrong": migrates(t, "maker:wrong", server.Addr(), "guard"),
		"there is no such database":         migrates(t, "root", server.Addr(), "none"),
		"GRANT CREATE":                      migrates(t, "app", server.Addr(), "guard", mysqllocker.WithTable("other")),
	} {
		if !strings.Contains(got, want) || strings.Contains(got, "GRANT SELECT") {
			t.Errorf("%s: want %q", got, want)
		}
	}
	found, err := checked(t, openAt(t, "app", server.Addr()), mysqllocker.WithTable("old"))
	has(t, found, err, mysqllocker.FindingSchema)
	if strings.Contains(found[0].Text, "is missing") {
		t.Errorf("%s: the table is there", found[0].Text)
	}
}

func TestCheckFindsMySQLThatKeepsRequestsWaiting(t *testing.T) {
	for _, c := range []struct {
		version  string
		lockWait int
		prepares bool
		want     []string
	}{
		{"8.0.40", 50, false, []string{mysqllocker.FindingLockWait}},
		{"8.0.40", 1, false, nil},
		{"10.11.6-MariaDB", 50, false, nil},
		{"8.0.40", 1, true, []string{mysqllocker.FindingPrepare}},
	} {
		judged := mysqllocker.JudgeMySQL(c.version, c.lockWait, c.prepares, time.Second)
		found, err := locker.Findings(errors.Join(judged...))
		has(t, found, err, c.want...)
	}
}

// distant returns the address of the server behind a way that takes time, and
// counts the requests.
func distant(t *testing.T, addr string, oneWay time.Duration) (far string, requests *atomic.Int64) {
	t.Helper()
	pipe, err := faultpipe.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pipe.Close)
	requests = new(atomic.Int64)
	pipe.Serve(func(client net.Conn) (faultpipe.Link, error) {
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		return &way{client, server, oneWay, requests}, nil
	})
	return pipe.Addr, requests
}

type way struct {
	client, server net.Conn
	oneWay         time.Duration
	requests       *atomic.Int64
}

func (w *way) Ends() (client, server net.Conn) { return w.client, w.server }

func (w *way) Up(b []byte) bool {
	w.requests.Add(1)
	return w.pass(w.server, b)
}

func (w *way) Down(b []byte) bool { return w.pass(w.client, b) }

func (w *way) pass(to net.Conn, b []byte) bool {
	time.Sleep(w.oneWay)
	_, err := to.Write(b)
	return err == nil
}

func TestAnAddressTakesOneRoundTripAStatement(t *testing.T) {
	server, _ := granting(t)
	far, requests := distant(t, server.Addr(), 0)
	l, err := locker.FromDSN("mysql://app@" + far + "/guard")
	if err != nil {
		t.Fatal(err)
	}
	g := testguard.New(t, l, guard.WithTTL(time.Minute))
	section := func(context.Context) error { return nil }
	least := int64(1000) // looks of the locker may come in between
	for range 20 {
		before := requests.Load()
		if err := g.Do(t.Context(), "k", section); err != nil {
			t.Fatal(err)
		}
		least = min(least, requests.Load()-before)
	}
	if least != 4 {
		t.Errorf("%d round trips for a Do, want 4: two reads and two writes", least)
	}
}

func TestCheckFindsADriverThatPreparesFarAway(t *testing.T) {
	server, _ := granting(t)
	far, _ := distant(t, server.Addr(), 7*time.Millisecond)
	found, err := checked(t, openAt(t, "app", far))
	has(t, found, err, mysqllocker.FindingPrepare)
	plain := openAt(t, "app", server.Addr())
	once, err := sql.Open("mysql", "app@tcp("+server.Addr()+")/guard?interpolateParams=true")
	if err != nil {
		t.Fatal(err)
	}
	defer once.Close()
	for _, row := range []struct {
		db       *sql.DB
		took     time.Duration
		findings int
	}{{plain, 40 * time.Millisecond, 0}, {plain, 41 * time.Millisecond, 1}, {once, time.Second, 0}} {
		if found := mysqllocker.Check(t.Context(), row.db, row.took); len(found) != row.findings {
			t.Errorf("after an acquire of %v: %v, want %d findings", row.took, found, row.findings)
		}
	}
}

// A connection that broke while nobody used it is not the caller's affair.
func TestABrokenConnectionIsTriedAgain(t *testing.T) {
	db := open(t)
	name := newTable(t, db)
	broken := &brokenOnce{Connector: sqlfault.New().Wrap(db.Driver(), dsn)}
	other := sql.OpenDB(broken)
	t.Cleanup(func() { _ = other.Close() })
	g := testguard.New(t, mysqllocker.New(other, name), guard.WithMaxWait(0))
	// A call that does not try again fails each time. On a busy machine a
	// connection may be opened too late.
	for done, n := 0, 0; done < 3; n++ {
		broken.next.Store(true)
		err := g.Do(t.Context(), "k", func(context.Context) error { return nil })
		if err == nil {
			done++
		} else if n == 10 {
			t.Fatalf("%d of %d calls are done: %v", done, n, err)
		}
	}
}

// brokenOnce makes connections whose next query finds that they are broken.
type brokenOnce struct {
	driver.Connector

	next atomic.Bool
}

func (c *brokenOnce) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &brokenConn{conn, c}, nil
}

type brokenConn struct {
	driver.Conn

	of *brokenOnce
}

func (c *brokenConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.of.next.CompareAndSwap(true, false) {
		return nil, driver.ErrBadConn
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}
