package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard"
)

// ErrKept says that the key has a result already. The transaction must be
// rolled back, and [Results.Recall] returns the result.
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

// Results is a table of results. Results is safe for concurrent use.
type Results struct {
	resultStatements

	dialect Dialect
}

// NewResults returns the results in table, or guard.ErrInvalidOption.
func NewResults(d Dialect, table string) (*Results, error) {
	if err := checkTable(d, table); err != nil {
		return nil, err
	}
	return &Results{resultDialects[d].of(table), d}, nil
}

// Schema returns the SQL that creates the table and its index.
func (t *Results) Schema() string { return t.schema }

// Recall returns what is kept for key, and reports whether there is something.
func (t *Results) Recall(ctx context.Context, q Querier, key string) (r Record, found bool, err error) {
	err = q.Row(ctx, t.recall, []any{key}, &r.Value, &r.Fingerprint, &r.Final)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Record{}, false, nil
	case err != nil:
		return Record{}, false, t.failed("read the result", err)
	}
	return r, true, nil
}

// Keep keeps r for key until ttl has passed, as the last statement of the
// transaction in which tx runs statements.
func (t *Results) Keep(ctx context.Context, tx Runner, key string, r Record, ttl time.Duration) error {
	if err := check(key, ttl); err != nil {
		return err
	}
	if err := t.clear(ctx, tx, key); err != nil {
		return t.failed("delete the old result", err)
	}
	n, err := tx.Exec(ctx, t.keep, key, orEmpty(r.Value), orEmpty(r.Fingerprint), r.Final, ttl.Microseconds())
	if err != nil {
		return t.failed("keep the result", err)
	}
	if n != 1 {
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
func (t *Results) Forget(ctx context.Context, db Runner, key string) (bool, error) {
	n, err := db.Exec(ctx, t.forget, key)
	if err != nil {
		return false, t.failed("delete the result", err)
	}
	return n > 0, nil
}

// Sweep deletes at most limit rows whose time is over, and returns how many.
func (t *Results) Sweep(ctx context.Context, db Runner, limit int) (deleted int64, err error) {
	if deleted, err = db.Exec(ctx, t.sweep, limit); err != nil {
		return 0, t.failed("delete old results", err)
	}
	return deleted, nil
}

// first is Recall as the first statement of a transaction. In SQLite the
// transaction must begin with a write, so that it has the lock from its start.
func (t *Results) first(ctx context.Context, tx Runner, key string) (r Record, found bool, err error) {
	if t.begin != "" {
		if _, err := tx.Exec(ctx, t.begin, key); err != nil {
			return Record{}, false, t.failed("begin", err)
		}
	}
	if t.mark != "" {
		if _, err := tx.Exec(ctx, t.mark); err != nil {
			return Record{}, false, t.failed("begin", err)
		}
	}
	return t.Recall(ctx, tx, key)
}

// unbroken fails if the transaction that began with first has ended. MySQL ends
// it at a deadlock and SQLite at some errors, and both carry out the statements
// that come after. A function that takes no notice of the error would have a
// result of half of its work.
func (t *Results) unbroken(ctx context.Context, tx Runner) error {
	if t.unmark == "" {
		return nil
	}
	_, err := tx.Exec(ctx, t.unmark)
	if said := (*RefusedError)(nil); errors.As(t.dialect.judge(err), &said) {
		return fmt.Errorf("sqlresult: the database has ended the transaction inside the function, "+
			"which took no notice of a deadlock or the like: %w", said)
	}
	if err != nil {
		return t.failed("look whether the transaction goes on", err)
	}
	return nil
}

// clear deletes a row for key whose time is over, where keep does not replace
// it.
func (t *Results) clear(ctx context.Context, tx Runner, key string) error {
	if t.expired == "" {
		return nil
	}
	var one int
	err := tx.Row(ctx, t.expired, []any{key}, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, t.drop, key)
	}
	return err
}

// commitError is an error of a COMMIT that was sent.
type commitError struct{ error }

func (e *commitError) Unwrap() error { return e.error }

// in runs do in a transaction of db. It commits if do returns nil and ctx has
// not ended, and otherwise rolls back: after the end of ctx another caller may
// have the key.
func (t *Results) in(ctx context.Context, db DB, do func(tx Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return t.failed("begin", err)
	}
	defer tx.Rollback() // after a panic too
	if err := do(tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlresult: commit: %w", err)
	}
	switch err := tx.Commit(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone): // it was not sent
		return t.failed("commit", err)
	default:
		return &commitError{fmt.Errorf("sqlresult: commit: %w", t.dialect.judge(err))}
	}
}

// failed returns err with what was to be done, as a [*RefusedError] if the
// database has refused that.
func (t *Results) failed(what string, err error) error {
	err = t.dialect.judge(err)
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
