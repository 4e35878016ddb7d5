package sqlresult

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlfence"
)

// ErrKept says that the key has a result already. The transaction must be
// rolled back, and [Table.Recall] returns the result.
var ErrKept = errors.New("sqlresult: the key has a result already, roll back")

// MaxKey is the max length of a key in the table, in bytes. A longer key is
// refused and never cut, because two cut keys would share a result.
const MaxKey = 255

// Record is what is kept for a key.
type Record struct {
	Value       []byte
	Fingerprint []byte // of the request, at most 32 bytes; a call with another one is refused
	Final       bool   // Value is an error that guard.Final made, not a result
}

// Table is a table of results. It is safe for concurrent use.
type Table struct{ statements }

// New returns the results in the given table. The table's name is put into
// statements without quotes. New does no I/O. Its error Is
// guard.ErrInvalidOption.
func New(d Dialect, table string) (*Table, error) {
	if _, err := sqlfence.New(d, table); err != nil { // the same dialects and names
		return nil, err
	}
	return &Table{dialects[d].of(table)}, nil
}

// Schema returns the SQL that creates the table and its index if they do not
// exist, for your migrations or for each start. One Exec without arguments runs
// it. Several processes may run it at once.
func (t *Table) Schema() string { return t.schema }

// A Queryer is an [sql.DB], [sql.Conn] or [sql.Tx].
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Recall returns what is kept for key, and reports whether there is something.
// The call blocks for one statement. The error is the database's.
func (t *Table) Recall(ctx context.Context, q Queryer, key string) (r Record, found bool, err error) {
	err = q.QueryRowContext(ctx, t.recall, key).Scan(&r.Value, &r.Fingerprint, &r.Final)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Record{}, false, nil
	case err != nil:
		return Record{}, false, t.failed("read the result", err)
	}
	return r, true, nil
}

// Keep keeps r for key until ttl has passed. It must be the last statement of
// tx. The record is there if and only if tx is committed.
//
// Keep waits while another open transaction keeps something for key, as long as
// ctx and the database allow. It returns [ErrKept] if the key has a result,
// guard.ErrInvalidKey or guard.ErrInvalidOption for a key or ttl that is not
// valid, and else the database's error. Roll back after any error.
func (t *Table) Keep(ctx context.Context, tx *sql.Tx, key string, r Record, ttl time.Duration) error {
	if err := check(key, ttl); err != nil {
		return err
	}
	if err := t.clear(ctx, tx, key); err != nil {
		return t.failed("delete the old result", err)
	}
	done, err := tx.ExecContext(ctx, t.keep, key, orEmpty(r.Value), orEmpty(r.Fingerprint), r.Final,
		ttl.Microseconds())
	if err != nil {
		return t.failed("keep the result", err)
	}
	if n, err := done.RowsAffected(); err != nil {
		return t.failed("keep the result", err)
	} else if n != 1 {
		return ErrKept
	}
	return nil
}

// orEmpty returns b, or what a column that is not null has for nil.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Forget deletes what is kept for key, and reports whether there was something.
// A transaction that runs meanwhile keeps its result. It blocks for one
// statement. Its error is the database's.
func (t *Table) Forget(ctx context.Context, db *sql.DB, key string) (bool, error) {
	done, err := db.ExecContext(ctx, t.forget, key)
	if err != nil {
		return false, t.failed("delete the result", err)
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// Sweep deletes at most limit rows whose time is over, and returns how many.
// Nothing else deletes the row of a key that is not used again. Call Sweep from
// time to time until it returns less than limit. It blocks for one statement.
// Its error is the database's.
func (t *Table) Sweep(ctx context.Context, db *sql.DB, limit int) (deleted int64, err error) {
	done, err := db.ExecContext(ctx, t.sweep, limit)
	if err != nil {
		return 0, t.failed("delete old results", err)
	}
	return done.RowsAffected()
}

// first is Recall as the first statement of a transaction. In SQLite the
// transaction must begin with a write, so that it has the lock from its start.
func (t *Table) first(ctx context.Context, tx *sql.Tx, key string) (r Record, found bool, err error) {
	if t.begin != "" {
		if _, err := tx.ExecContext(ctx, t.begin, key); err != nil {
			return Record{}, false, t.failed("begin", err)
		}
	}
	return t.Recall(ctx, tx, key)
}

// clear deletes a row for key whose time is over, where keep does not replace
// it.
func (t *Table) clear(ctx context.Context, tx *sql.Tx, key string) error {
	if t.expired == "" {
		return nil
	}
	var one int
	err := tx.QueryRowContext(ctx, t.expired, key).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, t.drop, key)
	}
	return err
}

// commitError is an error of COMMIT.
type commitError struct{ error }

func (e *commitError) Unwrap() error { return e.error }

// in runs do in a transaction of db. It commits if do returns nil, and
// otherwise rolls back.
func (t *Table) in(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return t.failed("begin", err)
	}
	defer func() { _ = tx.Rollback() }() // after a panic too
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &commitError{t.failed("commit", err)}
	}
	return nil
}

func (t *Table) failed(what string, err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("sqlresult: %s: the function, or the end of its ctx, has ended the transaction: %w",
			what, err)
	}
	return fmt.Errorf("sqlresult: %s (is there the table %s, see Table.Schema?): %w", what, t.name, err)
}

func check(key string, ttl time.Duration) error {
	switch {
	case key == "" || len(key) > MaxKey:
		return fmt.Errorf("%w: a key of %d bytes for a result, want 1 to %d", guard.ErrInvalidKey, len(key), MaxKey)
	case ttl < time.Millisecond:
		return fmt.Errorf("%w: a result is kept for %v, want at least 1ms", guard.ErrInvalidOption, ttl)
	}
	return nil
}
