package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// table runs statements on the table of leases. It is safe for concurrent use.
type table struct {
	*Dialect

	opener driver.Connector // of a db that open opens and close closes; or nil
	db     *sql.DB
	name   string
}

// check checks the settings.
func (t *table) check() error {
	if t.db == nil && lockerkit.IsNil(t.opener) {
		return lockerkit.Invalid(t.Name, "the database is nil")
	}
	if !tableName.MatchString(t.name) {
		return lockerkit.Invalid(t.Name, "WithTable(%q): a table is named by letters, digits and _, "+
			"with its schema and a dot in front if need be", t.name)
	}
	return nil
}

// maxConns is how many connections of its own a table uses at a time.
const maxConns = 4

// dial opens a database of the table's own.
func (t *table) dial() *sql.DB {
	db := sql.OpenDB(t.opener)
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	db.SetConnMaxIdleTime(time.Minute)
	return db
}

// Open checks the settings, and opens the database if it is the table's own.
func (t *table) Open() error {
	if err := t.check(); err != nil {
		return err
	}
	if t.opener != nil {
		t.db = t.dial()
	}
	return nil
}

// Close closes the database if it is the table's own.
func (t *table) Close() {
	if t.opener != nil {
		_ = t.db.Close()
	}
}

// repeat calls f until it succeeds, fails with an error that is not Again, or
// ctx ends. The pauses between are short, so that a process among busy ones
// gets its turn.
func (t *table) repeat(ctx context.Context, f func() error) error {
	for n := 0; ; n++ {
		err := f()
		if err == nil || t.verdict(err) != Again ||
			!lockerkit.Pause(rand.N(100*time.Microsecond<<min(n, 4)), ctx.Done()) {
			return err
		}
	}
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

const columns = "k, version, written, ends, value"

func (t *table) Traits() rowlocker.Traits {
	return rowlocker.Traits{
		Name: t.Name, Clock: true, Grain: t.Grain, Workers: t.Workers, Batch: batchMax,
		Limits: locker.Limits{MinTTL: 200 * time.Millisecond}, Findings: t.Findings,
	}
}

const batchMax = 128

// Load returns the rows of keys. The last row of the answer has the time only,
// for keys that have no row.
func (t *table) Load(ctx context.Context, keys []string) ([]rowlocker.Row, error) {
	args := make([]any, len(keys))
	for i, k := range keys {
		args[i] = []byte(k)
	}
	got, found := make([]rowlocker.Row, 0, len(keys)+1), make(map[string]int, len(keys)+1)
	these := "WHERE k IN (" + commas("?", len(keys)) + ")"
	now := " UNION ALL SELECT NULL, 0, 0, NULL, " + t.Now + ", " + t.ReadOnly
	err := t.scan(ctx, these+now, args, func(r rowlocker.Row) { found[r.Key], got = len(got), append(got, r) })
	if err != nil {
		return nil, err
	}
	rows := make([]rowlocker.Row, len(keys))
	for i, k := range keys {
		if at, there := found[k]; there {
			rows[i] = got[at]
		} else {
			rows[i] = rowlocker.Row{Key: k, Now: got[found[""]].Now}
		}
	}
	return rows, nil
}

// Scan returns rows behind after.
func (t *table) Scan(ctx context.Context, after string, n int) (rows []rowlocker.Row, err error) {
	err = t.scan(ctx, "WHERE k > ? ORDER BY k LIMIT ?", []any{[]byte(after), n}, func(r rowlocker.Row) {
		rows = append(rows, r)
	})
	return rows, err
}

func (t *table) scan(ctx context.Context, where string, args []any, each func(rowlocker.Row)) error {
	query := "SELECT k, version, written, value, " + t.Now + ", " + t.ReadOnly + " FROM " + t.name + " " + where
	err := t.each(ctx, query, args, func(rows *sql.Rows) error {
		var r rowlocker.Row
		var key []byte
		var readOnly bool
		if err := rows.Scan(&key, &r.Version, &r.Written, &r.Value, &r.Now, &readOnly); err != nil {
			return fmt.Errorf("a row that cannot be read: %w", err)
		}
		if readOnly {
			return errReadOnly
		}
		r.Key = string(key)
		each(r)
		return nil
	})
	if err != nil {
		return t.failed(err, true)
	}
	return nil
}

// Swap writes the rows of all changes in one statement. If that fails because
// of one, each is written by itself.
func (t *table) Swap(ctx context.Context, changes []*rowlocker.Change) error {
	err := t.write(ctx, changes)
	for _, c := range changes {
		c.Done = err == nil
	}
	switch {
	case err == nil:
		return nil
	case t.verdict(err) != Again:
		return t.failed(err, t.verdict(err) != Unavailable)
	case len(changes) > 1:
		for i := range changes { // one of them fails all, and nothing was done
			if err := t.Swap(ctx, changes[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	c := changes[0]
	if !lockerkit.Pause(rand.N(200*time.Microsecond), ctx.Done()) {
		return t.failed(ctx.Err(), true)
	}
	keys := make([]string, len(c.Rows))
	for i, r := range c.Rows {
		keys[i] = r.Key
	}
	c.Current, err = t.Load(ctx, keys)
	return err
}

// write writes rows in one statement, in the order of their keys, so that two
// processes lock rows in one order. Another deletes the rows of old records.
func (t *table) write(ctx context.Context, changes []*rowlocker.Change) error {
	var rows []rowlocker.Row
	var gone []any
	for _, c := range changes {
		for _, r := range c.Rows {
			if r.Value == nil { // rows with a Version are kept, for their tokens
				gone = append(gone, []byte(r.Key))
				continue
			}
			rows = append(rows, r)
		}
	}
	if len(rows) > 0 {
		slices.SortFunc(rows, func(a, b rowlocker.Row) int { return strings.Compare(a.Key, b.Key) })
		var args []any
		for _, r := range rows {
			version := r.Version + 1
			switch r.Version {
			case 0:
				version = 1 + rand.Int64N(1<<62) // unlike that of an earlier row of the same key
			case rowlocker.Any:
				version = -1 - rand.Int64N(1<<62)
			}
			keep := r.KeepFor.Microseconds()
			args = append(args, []byte(r.Key), version, keep, r.Value)
		}
		values := strings.Replace(t.Values, "%s", commas(t.Row, len(rows)), 1)
		err := t.exec(ctx, "INSERT INTO "+t.name+" ("+columns+") "+values+" "+t.Upsert, args)
		if err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	err := t.exec(ctx, "DELETE FROM "+t.name+" WHERE k IN ("+commas("?", len(gone))+")", gone)
	if len(rows) > 0 { // they are written, and none names a record that stays: that is swept
		return nil
	}
	return err
}

// failure is an error of the driver, sorted.
type failure struct {
	error
	cause error
}

func (f *failure) Unwrap() error { return f.error }

// failed returns an error of a statement as Rows tell it.
func (t *table) failed(err error, unsent bool) error {
	sorted := t.sorted(err)
	if unsent && errors.Is(sorted, locker.ErrUnavailable) {
		sorted = errors.Join(sorted, locker.ErrUnsent)
	}
	return &failure{sorted, err}
}

// Check returns the findings of the database.
func (t *table) Check(ctx context.Context, _, took time.Duration, failed error) error {
	if failed == nil {
		return errors.Join(t.Dialect.Check(ctx, t.db, took)...)
	}
	var f *failure
	if !errors.As(failed, &f) {
		return failed
	}
	name := ""
	switch t.verdict(f.cause) {
	case NoRight:
		name = FindingRights
	case NoTable:
		name = FindingSchema
	case ReadOnly:
		name = FindingReadOnly
	case Unavailable, Again, Other:
		return failed
	}
	return &locker.Finding{Name: name, Severity: locker.Refuse, Text: f.error.Error()}
}

// Names of the findings of every dialect.
const (
	FindingRights   = "rights"
	FindingSchema   = "schema"
	FindingReadOnly = "read-only"
)

// Locker is a [locker.Locker] on a table, for one guard.
type Locker struct {
	*rowlocker.Locker

	table *table
}

// New returns a Locker on the table of that name, and sends nothing. The table
// is in db, or in a database that Open opens by opener, and Close closes.
func New(d *Dialect, db *sql.DB, opener driver.Connector, name string) *Locker {
	t := &table{Dialect: d, db: db, opener: opener, name: name}
	return &Locker{rowlocker.New(t), t}
}

// Schema returns the statement that makes the table.
func (l *Locker) Schema() string { return strings.ReplaceAll(l.table.Create, "%s", l.table.name) }

// Migrate makes the table, unless it is there. Several processes may call it at
// once, and before Open. Migrate blocks until the database has answered or ctx
// ends.
func (l *Locker) Migrate(ctx context.Context) error {
	t := l.table
	if err := t.check(); err != nil {
		return err
	}
	db := t.db
	if t.opener != nil {
		db = t.dial() // beside the one of Open, which may not have been called
		defer db.Close()
	}
	err := t.repeat(ctx, func() error {
		_, err := db.ExecContext(ctx, l.Schema())
		return err
	})
	if err != nil {
		return t.sorted(err)
	}
	return nil
}

const (
	sweepEvery = 5 * time.Minute
	sweepAfter = 20 * time.Minute // for which nobody has owned a key when its row goes
	sweepLimit = 5 * time.Second
	sweepPage  = 500
)

// Work deletes the rows of keys that nobody uses, from time to time. A
// row that is deleted and comes back has its tokens from the clock, which is
// ahead.
func (t *table) Work(ctx context.Context) {
	for lockerkit.Pause(sweepEvery/2+rand.N(sweepEvery), ctx.Done()) {
		for more := true; more; {
			limited, cancel := context.WithTimeout(ctx, sweepLimit)
			more, _ = t.sweep(limited) // the next process or turn tries again
			cancel()
		}
	}
}

// Sweep deletes some rows of keys that nobody uses. It returns whether there
// may be more. A Locker calls it by itself.
func Sweep(ctx context.Context, l *Locker) (more bool, err error) { return l.table.sweep(ctx) }

// sweep deletes the rows of keys that nobody has owned for a time. sweep
// returns whether there may be more.
func (t *table) sweep(ctx context.Context) (more bool, err error) {
	age, unused := sweepAfter.Microseconds(), "ends < "+t.Now+" - ?"
	var keys []any
	query := "SELECT k FROM " + t.name + " WHERE " + unused + " LIMIT ?"
	err = t.each(ctx, query, []any{age, sweepPage}, func(rows *sql.Rows) error {
		var key []byte
		err := rows.Scan(&key)
		keys = append(keys, key)
		return err
	})
	if err != nil || len(keys) == 0 {
		return false, err
	}
	err = t.exec(ctx, "DELETE FROM "+t.name+" WHERE k IN ("+commas("?", len(keys))+") AND "+unused,
		append(keys, age))
	return len(keys) == sweepPage, err
}

const (
	boundLeast = 20 * time.Millisecond
	boundMost  = time.Second
)

// exec runs a statement that writes. The server gives up before the caller
// does, who would otherwise close the connection and leave the statement
// waiting in the server.
func (t *table) exec(ctx context.Context, query string, args []any) error {
	return t.on(ctx, func(c *sql.Conn) error {
		_, err := c.ExecContext(ctx, t.bound(ctx)+query, args...)
		return err
	})
}

// bound returns what stands in front of a statement that writes.
func (t *table) bound(ctx context.Context) string {
	if t.Bound == nil {
		return ""
	}
	limit := boundMost
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(end)/2, boundLeast))
	}
	return t.Bound(limit)
}

// each calls scan for each row of a query. If scan returns errReadOnly, the
// query may begin anew on another connection.
func (t *table) each(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	return t.on(ctx, func(c *sql.Conn) error {
		rows, err := c.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		if err := rows.Err(); !errors.Is(err, driver.ErrBadConn) {
			return err
		}
		return errors.New("the answer broke off")
	})
}

// badTries is how many connections that were broken before are tried at least.
// Idle ones may all be broken, as after a restart of the server.
const badTries = 3

// on lends a connection to f, which runs one statement.
//
// A connection to a server that takes no writes is closed. The connection may
// lead to the old primary of a failover, as the idle ones may, and the pool
// dials anew.
func (t *table) on(ctx context.Context, f func(*sql.Conn) error) error {
	idle := t.db.Stats().Idle
	for bad := 0; ; {
		c, err := t.db.Conn(ctx)
		if err != nil {
			return err
		}
		err = f(c)
		readOnly := err != nil && t.verdict(err) == ReadOnly
		if readOnly {
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = c.Close()
		switch {
		case readOnly && idle > 0:
			idle--
		case errors.Is(err, driver.ErrBadConn) && bad < max(idle, badTries):
			bad++
		default:
			return err
		}
	}
}

// errReadOnly is the error of a read from a server that takes no writes.
var errReadOnly = errors.New("the server is read-only")

// verdict sorts an error of a statement.
func (t *table) verdict(err error) Verdict {
	if errors.Is(err, errReadOnly) {
		return ReadOnly
	}
	return t.Judge(err)
}

// advice says what to do about an error of a statement, behind ": ".
func (t *table) advice(err error) string {
	text := ""
	if t.Advice != nil {
		text = t.Advice(err)
	}
	if text == "" {
		switch t.verdict(err) {
		case NoRight:
			text = "a right is missing: " + fmt.Sprintf(t.Rights, t.name)
		case NoTable:
			text = "the table " + t.name + " is missing: run Migrate, or the statement of Schema"
		case ReadOnly:
			text = lockerkit.ReadOnly
		case Unavailable, Again, Other:
			return ""
		}
	}
	return ": " + text
}

// sorted returns an error of a statement as an error of package locker, or as
// one that says what to do.
func (t *table) sorted(err error) error {
	switch t.verdict(err) {
	case NoRight, NoTable, Other:
		return fmt.Errorf("%s: %w%s", t.Name, err, t.advice(err))
	case Unavailable, Again, ReadOnly:
	}
	return fmt.Errorf("%s: %w: %w%s", t.Name, locker.ErrUnavailable, err, t.advice(err))
}
