package explore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Open opens a database for the process of ctx, through the driver of that
// name, and sends nothing. Each statement and each COMMIT is a step. If the
// process dies, the database drops its connections and what they have not
// committed. A statement that finds SQLite locked waits, up to 5 s. The run
// closes the database at its end. Open panics if there is no such driver, or if
// ctx is not that of a process.
//
// The driver must do its work in the goroutine that calls it, as that of SQLite
// does on a file. Connections to SQLite in memory are refused: those of
// ":memory:" see a database each, and those of vfs=memdb and mode=memory block
// each other as no database in production does. Use a file in t.TempDir() with
// _pragma=journal_mode(wal) and _pragma=synchronous(off), one for each run.
func (w *World) Open(ctx context.Context, driverName, dsn string) *sql.DB {
	raw, err := sql.Open(driverName, dsn)
	if err != nil {
		panic(err)
	}
	d := raw.Driver()
	_ = raw.Close()
	db := sql.OpenDB(&connector{processOf(ctx), d, dsn})
	w.Cleanup(func() { _ = db.Close() })
	return db
}

// errInMemory is the error of each statement on SQLite in memory.
var errInMemory = errors.New("explore: SQLite in memory does not behave as a database that processes share: " +
	"use a file in t.TempDir() with _pragma=journal_mode(wal), see World.Open")

func inMemory(dsn string) bool {
	return slices.ContainsFunc([]string{":memory:", "mode=memory", "vfs=memdb"},
		func(s string) bool { return strings.Contains(dsn, s) })
}

type connector struct {
	p      *process
	driver driver.Driver
	dsn    string
}

func (c *connector) Driver() driver.Driver { return c.driver }

func (c *connector) Connect(context.Context) (driver.Conn, error) {
	if inMemory(c.dsn) {
		return nil, errInMemory
	}
	raw, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	conn := &conn{Conn: raw, p: c.p}
	c.p.w.mu.Lock()
	defer c.p.w.mu.Unlock()
	c.p.atCrash = append(c.p.atCrash, conn)
	return conn, nil
}

// conn is a connection to the database.
type conn struct {
	driver.Conn

	p     *process
	inTx  bool
	mu    sync.Mutex // guards all below
	late  int        // statements under way that come after the connection is lost
	bad   bool       // it is lost
	ended bool
}

func (c *conn) IsValid() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.bad
}

// Close ends the connection when nothing is under way.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = true
	if c.late > 0 || c.ended {
		return nil
	}
	c.ended = true
	return c.Conn.Close()
}

var errDead = errors.New("explore: the process has died")

// do sends a statement. Unlike Step it never keeps a goroutine of a process
// that has died, because database/sql holds a mutex meanwhile, and it returns
// when ctx ends.
func (c *conn) do(ctx context.Context, what string, send func() error) error {
	p, w := c.p, c.p.w
	what = clip(what)
	if err := ctx.Err(); err != nil {
		return err
	}
	k := p.passUntil(ctx, what, c.kinds(what), outside)
	switch k {
	case over:
		return cmp.Or(ctx.Err(), errDead)
	case lostRequest:
		_ = c.Close()
		return ErrNoAnswer
	case pause, longPause, late:
		return c.doLate(ctx, k, what, send)
	}
	err := c.patiently(ctx, what, send)
	w.log(p, outcome(what, err))
	switch k {
	case crash:
		p.crash()
		return errDead
	case lostAnswer:
		w.unheard(p)
		_ = c.Close()
		return ErrNoAnswer
	}
	return err
}

// kinds leaves out what comes to the same: before COMMIT, the database undoes
// all if the connection is lost, and a SELECT has no effect.
func (c *conn) kinds(what string) []kind {
	switch {
	case what == "COMMIT":
		return stepKinds
	case c.inTx:
		return []kind{yield, crash, pause}
	case len(what) > 6 && strings.EqualFold(what[:6], "SELECT"):
		return []kind{yield, crash, pause, longPause, lostRequest}
	}
	return stepKinds
}

// doLate sends a statement that arrives after k.
func (c *conn) doLate(ctx context.Context, k kind, what string, send func() error) (err error) {
	p, w := c.p, c.p.w
	d := p.length(k)
	if k != late {
		p.standFor(d)
	}
	c.mu.Lock()
	c.late++
	c.mu.Unlock()
	var sent error
	done := w.network(d, func() {
		sent = c.patiently(context.Background(), what, send)
		w.log(p, outcome(what+" arrives", sent))
		c.mu.Lock()
		c.late--
		bad := c.bad
		c.mu.Unlock()
		if bad {
			_ = c.Close()
		}
	})
	select {
	case <-done:
		return sent
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.gone:
		err = errDead
	case <-p.end:
		err = errDead
	}
	_ = c.Close()
	return err
}

// patiently calls send again while the database is locked.
func (c *conn) patiently(ctx context.Context, what string, send func() error) error {
	const wait, pace = 5 * time.Second, 50 * time.Millisecond
	for start := time.Now(); ; {
		err := send()
		if !locked(err) || time.Since(start) > wait {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pace):
		}
		if c.p.passUntil(ctx, "again: "+what, minor, outside) == over {
			return err
		}
	}
}

// locked reports whether err is SQLITE_BUSY or SQLITE_LOCKED.
func locked(err error) bool {
	var e interface{ Code() int }
	return errors.As(err, &e) && (e.Code()&0xff == 5 || e.Code()&0xff == 6)
}

// clip is the statement as the story tells it.
func clip(what string) string {
	const most = 60
	text := []rune(strings.Join(strings.Fields(what), " "))
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}

// CheckNamedValue leaves it to the driver.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if ch, ok := c.Conn.(driver.NamedValueChecker); ok {
		return ch.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	var t driver.Tx
	err := c.patiently(ctx, "BEGIN", func() (err error) {
		if b, ok := c.Conn.(driver.ConnBeginTx); ok {
			t, err = b.BeginTx(context.WithoutCancel(ctx), opts)
		} else {
			t, err = c.Conn.Begin() //nolint:staticcheck // old drivers
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return &tx{t, c, ctx}, nil
}

func (c *conn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return &stmt{s, c, query}, nil
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	args = slices.Clone(args)
	err = c.do(ctx, query, func() (err error) {
		r, err = e.ExecContext(context.WithoutCancel(ctx), query, args)
		return err
	})
	return r, err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	args = slices.Clone(args)
	return c.query(ctx, query, func() (driver.Rows, error) {
		return q.QueryContext(context.WithoutCancel(ctx), query, args)
	})
}

// query reads all rows in one step. No cursor stays open.
func (c *conn) query(ctx context.Context, query string, send func() (driver.Rows, error)) (driver.Rows, error) {
	var all rows
	if err := c.do(ctx, query, func() error {
		r, err := send()
		if err != nil {
			return err
		}
		all = rows{columns: r.Columns()}
		for {
			row := make([]driver.Value, len(all.columns))
			if err := r.Next(row); err != nil {
				if errors.Is(err, io.EOF) {
					return r.Close()
				}
				return errors.Join(err, r.Close())
			}
			for i, v := range row {
				if b, ok := v.([]byte); ok {
					row[i] = bytes.Clone(b)
				}
			}
			all.rows = append(all.rows, row)
		}
	}); err != nil {
		return nil, err
	}
	return &all, nil
}

type rows struct {
	columns []string
	rows    [][]driver.Value
}

func (r *rows) Columns() []string { return r.columns }
func (r *rows) Close() error      { return nil }
func (r *rows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

type tx struct {
	driver.Tx

	c   *conn
	ctx context.Context
}

func (t *tx) Commit() error {
	defer func() { t.c.inTx = false }()
	return t.c.do(t.ctx, "COMMIT", t.Tx.Commit)
}

// Rollback sends nothing on a connection that is lost.
func (t *tx) Rollback() error {
	t.c.inTx = false
	switch {
	case !t.c.IsValid():
		return nil
	case t.c.p.passUntil(context.Background(), "ROLLBACK", minor, outside) == over:
		return nil
	}
	return t.Tx.Rollback()
}

type stmt struct {
	driver.Stmt

	c     *conn
	query string
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	args = slices.Clone(args)
	err = s.c.do(ctx, s.query, func() (err error) {
		if e, ok := s.Stmt.(driver.StmtExecContext); ok {
			r, err = e.ExecContext(context.WithoutCancel(ctx), args)
			return err
		}
		r, err = s.Stmt.Exec(values(args)) //nolint:staticcheck // old drivers
		return err
	})
	return r, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	args = slices.Clone(args)
	return s.c.query(ctx, s.query, func() (driver.Rows, error) {
		if q, ok := s.Stmt.(driver.StmtQueryContext); ok {
			return q.QueryContext(context.WithoutCancel(ctx), args)
		}
		return s.Stmt.Query(values(args)) //nolint:staticcheck // old drivers
	})
}

func values(args []driver.NamedValue) (vs []driver.Value) {
	for _, a := range args {
		vs = append(vs, a.Value)
	}
	return vs
}
