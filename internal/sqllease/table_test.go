package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
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
