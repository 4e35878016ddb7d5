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
// The driver must do its work in the goroutine that calls it, as
// modernc.org/sqlite does on a file. Connections to SQLite in memory are
// refused: those of ":memory:" see a database each, and those of vfs=memdb and
// mode=memory block each other as no database in production does. Use a file in
// t.TempDir() with _pragma=journal_mode(wal) and _pragma=synchronous(off): one
// for each run, or one for all with [SameDatabase].
func (w *World) Open(ctx context.Context, driverName, dsn string) *sql.DB {
	p, err := processOf(ctx)
	if err != nil {
		panic(err)
	}
	raw, err := sql.Open(driverName, dsn)
	if err != nil {
		panic(err)
	}
	d := raw.Driver()
	_ = raw.Close()
	c := &connector{p: p, driver: d, dsn: dsn}
	db := sql.OpenDB(c)
	w.Cleanup(func() {
		_ = db.Close()
		c.close()
	})
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
	opened []*conn // guarded by p.w.mu
}

func (c *connector) Driver() driver.Driver { return c.driver }

func (c *connector) Connect(context.Context) (driver.Conn, error) {
	if inMemory(c.dsn) {
		return nil, errInMemory
	}
	w := c.p.w
	raw := w.pool.take(c.dsn)
	if raw == nil {
		var err error
		if raw, err = c.driver.Open(c.dsn); err != nil {
			return nil, err
		}
	}
	conn := &conn{Conn: raw, p: c.p, dsn: c.dsn, asNew: true}
	w.mu.Lock()
	dead := c.p.dead
	c.opened = append(c.opened, conn)
	c.p.atCrash = append(c.p.atCrash, conn)
	w.mu.Unlock()
	if dead {
		return nil, errors.Join(errDead, conn.Close())
	}
	return conn, nil
}

// close ends what the process left open, at the end of the run. No statement
// comes late any more.
func (c *connector) close() {
	c.p.w.mu.Lock()
	opened := c.opened
	c.p.w.mu.Unlock()
	for _, conn := range opened {
		conn.mu.Lock()
		conn.late = 0
		conn.mu.Unlock()
		_ = conn.Close()
	}
}

// conn is a connection to the database.
type conn struct {
	driver.Conn

	p     *process
	dsn   string
	mu    sync.Mutex // guards all below
	tx    driver.Tx  // that has begun and not ended
	asNew bool       // nothing has changed but rows
	late  int        // statements under way that come after the connection is lost
	stmts []*stmt    // that are prepared
	bad   bool       // it is lost
	ended bool
}

func (c *conn) IsValid() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.bad
}

// Close ends the connection when nothing is under way. The database undoes a
// transaction then.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = true
	if c.late > 0 || c.ended {
		return nil
	}
	c.ended = true
	for _, s := range c.stmts {
		_ = s.Stmt.Close()
	}
	if pool := c.p.w.pool; pool.on && c.asNew && (c.tx == nil || c.tx.Rollback() == nil) {
		pool.put(c.Conn, c.dsn)
		return nil
	}
	return c.Conn.Close()
}

// set notes the transaction that is open.
func (c *conn) set(t driver.Tx) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tx = t
}

// sends notes that query is about to be sent.
func (c *conn) sends(query string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asNew = c.asNew && onlyRows(query)
}

func (c *conn) inTx() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tx != nil
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
	case c.inTx():
		return []kind{yield, swap, crash, pause}
	case len(what) > 6 && strings.EqualFold(what[:6], "SELECT"):
		return []kind{yield, swap, crash, pause, longPause, lostRequest}
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
	if !c.IsValid() {
		return nil, driver.ErrBadConn
	}
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
	c.set(t)
	return &tx{t, c, ctx}, nil
}

func (c *conn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	if c.sends(query); !c.IsValid() {
		return nil, driver.ErrBadConn
	}
	s, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	st := &stmt{s, c, query}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stmts = append(c.stmts, st)
	return st, nil
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	c.sends(query)
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
	c.sends(query)
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

// Commit loses the connection if it fails, and the transaction with it.
func (t *tx) Commit() error {
	err := t.c.do(t.ctx, "COMMIT", func() error {
		err := t.Tx.Commit()
		if !locked(err) {
			t.c.set(nil)
		}
		return err
	})
	if err != nil {
		_ = t.c.Close()
	}
	return err
}

// Rollback sends nothing on a connection that is lost.
func (t *tx) Rollback() error {
	if !t.c.IsValid() || t.c.p.passUntil(context.Background(), "ROLLBACK", minor, outside) == over {
		return nil
	}
	err := t.Tx.Rollback()
	if err == nil {
		t.c.set(nil)
	}
	return err
}

type stmt struct {
	driver.Stmt

	c     *conn
	query string
}

// Close leaves the statement of a connection that is lost to it.
func (s *stmt) Close() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.bad {
		return nil
	}
	s.c.stmts = slices.DeleteFunc(s.c.stmts, func(o *stmt) bool { return o == s })
	return s.Stmt.Close()
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
