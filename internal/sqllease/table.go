package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
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

func (t *table) open() {
	if t.opener != nil {
		t.db = t.dial()
	}
}

func (t *table) close() {
	if t.opener != nil {
		_ = t.db.Close()
	}
}

func (t *table) schema() string { return strings.ReplaceAll(t.Create, "%s", t.name) }

// migrate makes the table, unless it is there.
func (t *table) migrate(ctx context.Context) error {
	if err := t.check(); err != nil {
		return err
	}
	db := t.db
	if t.opener != nil {
		db = t.dial() // beside the one of open, which may not have been called
		defer db.Close()
	}
	err := t.repeat(ctx, func() error {
		_, err := db.ExecContext(ctx, t.schema())
		return err
	})
	if err != nil {
		return t.sorted(err)
	}
	return nil
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

const columns = "k, version, owner, ends, token, holder, crowd, queue, record_by, record_mark, record_ends, record_size"

// read returns the rows of keys, with the values of their records if values is
// true. A key without a row gets none.
func (t *table) read(ctx context.Context, keys []string, values bool) (map[string]*row, error) {
	args := make([]any, len(keys))
	for i, k := range keys {
		args[i] = []byte(k)
	}
	got := make(map[string]*row, len(keys))
	where := "WHERE k IN (" + commas("?", len(keys)) + ")"
	err := t.scan(ctx, values, where, args, func(key string, r *row) { got[key] = r })
	return got, err
}

// readAll is read, with an empty row for each key that has none.
func (t *table) readAll(ctx context.Context, keys []string, values bool) (map[string]*row, error) {
	rows, err := t.read(ctx, keys, values)
	if err != nil || len(rows) == len(keys) {
		return rows, err
	}
	now, err := t.now(ctx)
	for _, key := range keys {
		if rows[key] == nil {
			rows[key] = &row{now: now, grain: t.Grain.Microseconds()}
		}
	}
	return rows, err
}

// page returns the keys behind after in their order, n at most, with their
// rows.
func (t *table) page(ctx context.Context, after string, n int) (keys []string, rows []*row, err error) {
	err = t.scan(ctx, false, "WHERE k > ? ORDER BY k LIMIT ?", []any{[]byte(after), n}, func(key string, r *row) {
		keys, rows = append(keys, key), append(rows, r)
	})
	return keys, rows, err
}

func (t *table) scan(
	ctx context.Context, values bool, where string, args []any, each func(key string, r *row),
) error {
	value := "NULL"
	if values {
		value = "record"
	}
	query := "SELECT " + columns + ", " + value + ", " + t.Now + ", " + t.ReadOnly + " FROM " + t.name + " " + where
	return t.each(ctx, query, args, func(rows *sql.Rows) error {
		var key, crowd, queue []byte
		var readOnly bool
		r := &row{grain: t.Grain.Microseconds()}
		left := &r.record
		err := rows.Scan(&key, &r.version, &r.owner, &r.ends, &r.token, &r.holder, &crowd, &queue,
			&left.owner, &left.mark, &left.ends, &left.size, &left.value, &r.now, &readOnly)
		if err == nil && len(queue) > 0 {
			err = json.Unmarshal(queue, &r.queue)
		}
		if err == nil && len(crowd) > 0 {
			err = json.Unmarshal(crowd, &r.crowd)
		}
		if err != nil {
			return fmt.Errorf("a row that cannot be read: %w", err)
		}
		if readOnly {
			return errReadOnly
		}
		r.settle()
		each(string(key), r)
		return nil
	})
}

// now returns the server's time.
func (t *table) now(ctx context.Context) (now int64, err error) {
	err = t.each(ctx, "SELECT "+t.Now+", "+t.ReadOnly, nil, func(rows *sql.Rows) error {
		var readOnly bool
		if err := rows.Scan(&now, &readOnly); err != nil || !readOnly {
			return err
		}
		return errReadOnly
	})
	return now, err
}

// write writes the dirty rows in one statement, in the order of their keys, so
// that two processes lock rows in one order.
func (t *table) write(ctx context.Context, rows map[string]*row) error {
	var args []any
	n := 0
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		r := rows[key]
		if !r.dirty {
			continue
		}
		crowd, err1 := list(r.crowd)
		queue, err2 := list(r.queue)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("a row that cannot be written: %w", err)
		}
		holder, ends := r.holder, r.ends
		if holder == nil {
			holder = []byte{}
		}
		for _, s := range r.crowd {
			ends = max(ends, s.Ends) // for sweep
		}
		left := r.record
		if !left.dirty {
			left.value = nil // Upsert leaves what is there
		}
		args = append(args, []byte(key), r.next(), r.owner, ends, r.token, holder, crowd, queue,
			left.owner, left.mark, left.ends, left.size, left.value)
		n++
	}
	return t.exec(ctx, "INSERT INTO "+t.name+" ("+columns+", record) VALUES "+
		commas("(?,?,?,?,?,?,?,?,?,?,?,?,?)", n)+" "+t.Upsert, args)
}

// list returns the JSON of a list, and nothing for an empty one.
func list[T any](items []T) ([]byte, error) {
	if len(items) == 0 {
		return []byte{}, nil
	}
	return json.Marshal(items)
}

// renew gives each owner that is alone its TTL, and returns those that own
// their keys.
func (t *table) renew(ctx context.Context, keys, owners []string, ttl time.Duration) (map[string]bool, error) {
	in := "k IN (" + commas("?", len(keys)) + ") AND owner IN (" + commas("?", len(owners)) + ") AND ends > " + t.Now
	var names []any
	for _, k := range keys {
		names = append(names, []byte(k))
	}
	for _, o := range owners {
		names = append(names, o)
	}
	err := t.exec(ctx, "UPDATE "+t.name+" SET version = version + 1, ends = "+t.Now+" + ? WHERE "+in,
		append([]any{(t.Grain + ttl).Microseconds()}, names...))
	if err != nil {
		return nil, err
	}
	// A row that still has its owner was renewed: nobody else makes ends later.
	renewed := make(map[string]bool, len(owners))
	query := "SELECT owner, " + t.ReadOnly + " FROM " + t.name + " WHERE " + in
	err = t.each(ctx, query, names, func(rows *sql.Rows) error {
		var owner string
		var readOnly bool
		if err := rows.Scan(&owner, &readOnly); err != nil {
			return err
		}
		if readOnly {
			return errReadOnly
		}
		renewed[owner] = true
		return nil
	})
	return renewed, err
}

const (
	sweepEvery = 5 * time.Minute
	sweepAfter = 20 * time.Minute // for which nobody has owned a key when its row goes
	sweepLimit = 5 * time.Second
	sweepPage  = 500
)

// sweepOften deletes the rows of keys that nobody uses, from time to time. A
// row that is deleted and comes back has its tokens from the clock, which is
// ahead.
func (t *table) sweepOften(ctx context.Context) {
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
	now, err := t.now(ctx)
	if err != nil {
		return false, err
	}
	old := now - sweepAfter.Microseconds()
	const unusedSince = " ends < ? AND token < ? AND record_ends < ?"
	query := "SELECT k FROM " + t.name + " WHERE" + unusedSince + " LIMIT ?"
	var keys []any
	err = t.each(ctx, query, []any{old, old, now, sweepPage}, func(rows *sql.Rows) error {
		var key []byte
		err := rows.Scan(&key)
		keys = append(keys, key)
		return err
	})
	if err != nil || len(keys) == 0 {
		return false, err
	}
	err = t.exec(ctx, "DELETE FROM "+t.name+" WHERE k IN ("+commas("?", len(keys))+") AND"+unusedSince,
		append(keys, old, old, now))
	return len(keys) == sweepPage, err
}

// remove deletes the row of a key that nobody uses.
func (t *table) remove(ctx context.Context, key string) error {
	return t.exec(ctx, "DELETE FROM "+t.name+" WHERE k = ?", []any{[]byte(key)})
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

// change reads the rows of a batch, has apply change them, and writes them.
// change begins anew as long as others change the rows meanwhile. unsent says
// that nothing was written.
func (t *table) change(
	ctx context.Context, batch []*request, apply func(rows map[string]*row),
) (unsent bool, err error) {
	keys := keysOf(batch)
	values := slices.ContainsFunc(batch, (*request).wantsValue)
	err = t.repeat(ctx, func() error {
		unsent = true
		rows, err := t.readAll(ctx, keys, values)
		if err != nil {
			return err
		}
		if apply(rows); !anyDirty(rows) {
			return nil
		}
		err = t.write(ctx, rows)
		unsent = err != nil && t.verdict(err) != Unavailable
		return err
	})
	return unsent, err
}

func keysOf(batch []*request) (keys []string) {
	seen := make(map[string]bool, len(batch))
	for _, q := range batch {
		if !seen[q.key] {
			seen[q.key] = true
			keys = append(keys, q.key)
		}
	}
	return keys
}

func anyDirty(rows map[string]*row) bool {
	for _, r := range rows {
		if r.dirty {
			return true
		}
	}
	return false
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

// failure returns the error of a reply.
func (t *table) failure(r reply) error {
	err := t.sorted(r.err)
	if r.unsent && errors.Is(err, locker.ErrUnavailable) {
		return errors.Join(err, locker.ErrUnsent)
	}
	return err
}

// unclear returns err for a holder: a refusal leaves as much in doubt as
// silence does.
func unclear(err error) error {
	if err == nil || errors.Is(err, locker.ErrLeaseLost) || errors.Is(err, locker.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", locker.ErrUnavailable, err)
}

func (t *table) lost() error { return fmt.Errorf("%s: %w", t.Name, locker.ErrLeaseLost) }
