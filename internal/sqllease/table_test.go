package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker/rowlocker"
)

// stale is a connector whose first connections are broken when they are used.
// One goroutine dials.
type stale struct{ broken, dialed int }

func (s *stale) Connect(context.Context) (driver.Conn, error) {
	s.dialed++
	return &staleConn{s.dialed <= s.broken}, nil
}

func (s *stale) Driver() driver.Driver { return nil }

type staleConn struct{ dead bool }

func (c *staleConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("unused") }
func (c *staleConn) Close() error                        { return nil }
func (c *staleConn) Begin() (driver.Tx, error)           { return nil, errors.New("unused") }

func (c *staleConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	if c.dead {
		return nil, driver.ErrBadConn
	}
	return driver.RowsAffected(1), nil
}

// A restart of the server breaks all idle connections at once. Package sql itself
// would dial anew after some.
func TestAStatementIsDoneHoweverManyIdleConnectionsBroke(t *testing.T) {
	const idle = 10
	s := &stale{broken: idle}
	db := sql.OpenDB(s)
	defer db.Close()
	db.SetMaxIdleConns(idle)
	var conns []*sql.Conn
	for range idle {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	tb := &table{Dialect: &Dialect{Judge: func(error) Verdict { return Unavailable }}, db: db}
	if err := tb.exec(t.Context(), "x", nil); err != nil {
		t.Errorf("%v after %d dials, want the statement done on a new connection", err, s.dialed)
	}
}

// busy is a connector to a database where somebody else writes when a row is to
// be deleted.
type busy struct{ staleConn }

func (b *busy) Connect(context.Context) (driver.Conn, error) { return b, nil }
func (b *busy) Driver() driver.Driver                        { return nil }

func (b *busy) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(query, "DELETE") {
		return nil, errors.New("busy")
	}
	return driver.RowsAffected(1), nil
}

// What a row of a long record leaves behind is found by nobody, and swept. That
// it stays must not undo the answer to what was written, nor to other changes.
func TestAChangeIsDoneThoughAnOldRecordStays(t *testing.T) {
	db := sql.OpenDB(&busy{})
	defer db.Close()
	tb := &table{Dialect: &Dialect{Judge: func(error) Verdict { return Again }, Values: "%s"}, db: db, name: "t"}
	row := func(key string) rowlocker.Row {
		return rowlocker.Row{Key: key, Version: 1, Value: []byte("/{}"), KeepFor: time.Second}
	}
	a, b := &rowlocker.Change{Rows: []rowlocker.Row{row("a")}}, &rowlocker.Change{
		Rows: []rowlocker.Row{row("b"), {Key: "b%record", Version: rowlocker.Any}},
	}
	if err := tb.Swap(t.Context(), []*rowlocker.Change{a, b}); err != nil || !a.Done || !b.Done {
		t.Errorf("done %v and %v, %v", a.Done, b.Done, err)
	}
	alone := &rowlocker.Change{Rows: []rowlocker.Row{{Key: "c", Version: rowlocker.Any}}}
	if err := tb.Swap(t.Context(), []*rowlocker.Change{alone}); err == nil {
		t.Error("a deletion alone is done, want an error")
	}
}

// noting is a connector that notes the arguments of the last statement.
type noting struct {
	staleConn

	args []driver.NamedValue
}

func (n *noting) Connect(context.Context) (driver.Conn, error) { return n, nil }
func (n *noting) Driver() driver.Driver                        { return nil }

func (n *noting) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	n.args = args
	return driver.RowsAffected(1), nil
}

// A process that has read a row which was swept must not take the next for it.
func TestTheFirstVersionIsRandom(t *testing.T) {
	n := &noting{}
	db := sql.OpenDB(n)
	defer db.Close()
	tb, first := &table{Dialect: &Dialect{Values: "%s"}, db: db, name: "t"}, map[any]bool{}
	for range 3 {
		c := &rowlocker.Change{Rows: []rowlocker.Row{{Key: "k", Value: []byte("/{}"), KeepFor: time.Second}}}
		if err := tb.Swap(t.Context(), []*rowlocker.Change{c}); err != nil {
			t.Fatal(err)
		}
		first[n.args[1].Value] = true
	}
	if len(first) != 3 {
		t.Errorf("three new rows have the versions %v, want each its own", first)
	}
}
