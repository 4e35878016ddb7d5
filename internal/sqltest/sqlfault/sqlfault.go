// Package sqlfault makes a database hang for a test, by a driver around the
// real one.
package sqlfault

import (
	"context"
	"database/sql/driver"
	"sync"
	"sync/atomic"
)

// Fault is the state of a database. It is safe for concurrent use.
type Fault struct {
	writes atomic.Int64

	mu     sync.Mutex    // guards broken
	broken chan struct{} // closed by mend; nil: the database answers
}

// New returns a Fault of a database that answers.
func New() *Fault { return &Fault{} }

// Break has all requests wait until mend, or until their contexts end.
func (f *Fault) Break() (mend func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	broken := make(chan struct{})
	f.broken = broken
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.broken = nil
		close(broken)
	})
}

// Writes returns how many statements were sent that return no rows.
func (f *Fault) Writes() int64 { return f.writes.Load() }

func (f *Fault) wait(ctx context.Context) error {
	f.mu.Lock()
	broken := f.broken
	f.mu.Unlock()
	if broken == nil {
		return nil
	}
	select {
	case <-broken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wrap returns a connector for sql.OpenDB.
func (f *Fault) Wrap(d driver.Driver, dsn string) driver.Connector { return &connector{f, d, dsn} }

type connector struct {
	fault  *Fault
	driver driver.Driver
	dsn    string
}

func (c *connector) Driver() driver.Driver { return c.driver }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.fault.wait(ctx); err != nil {
		return nil, err
	}
	inner, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &conn{inner, c.fault}, nil
}

// conn is a connection whose statements wait for the fault. The driver must
// have QueryContext and ExecContext.
type conn struct {
	driver.Conn

	fault *Fault
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.fault.wait(ctx); err != nil {
		return nil, err
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.fault.writes.Add(1)
	if err := c.fault.wait(ctx); err != nil {
		return nil, err
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}
