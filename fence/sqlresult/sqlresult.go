// Package sqlresult keeps the result of a function in the database that the
// function writes to, in the same transaction. It supports PostgreSQL, MySQL,
// MariaDB and SQLite, through database/sql.
//
//	results, err := sqlresult.New(sqlresult.PostgreSQL, "results") // at start-up
//
//	receipt, err := sqlresult.Once(ctx, g, db, results, key, 24*time.Hour,
//		func(ctx context.Context, tx *sql.Tx) (Receipt, error) {
//			...
//		})
//
// What the function writes through its transaction happens exactly once per key
// and ttl, also after a crash, a lost lease or an outage of the lock's store.
// The primary key of the table decides. The lease only spares the others the
// work. What the function does elsewhere, such as a call of another service,
// may happen again: the database knows nothing of it.
//
// Compare guard.Once, which keeps results in the store of the locks. There the
// function runs again after a crash.
package sqlresult

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard"
)

// Once returns the result that t has for key. If it has none, Once runs fn in a
// transaction of db while it holds key, as [guard.Guard.Do] does, and commits
// what fn has written together with its result. The result is kept for ttl,
// from the end of fn.
//
// Once ends the transaction. fn must not, and it must use the ctx that it gets.
// If fn returns an error, all is rolled back, and the next call runs fn. An
// error that [guard.Final] made is kept as a result, in a transaction of its
// own after the rollback.
//
// If fn did not run and there is no result, the error is one of Do's, or the
// database's, of which guard.Ran knows nothing. If COMMIT gives no answer, Once looks for the result. If it finds
// none, it returns fn's result with guard.ErrNotKept: the transaction may yet be
// committed, and a later call finds out. A lease that is lost after the commit
// is no error.
//
// key has at most 255 bytes, else Once returns guard.ErrInvalidKey. It returns
// guard.ErrInvalidOption for a ttl below 1 ms. A nil g is the default guard.
// Once blocks as Do does, and for the statements of the database. It is safe
// for concurrent use.
func Once[T any](ctx context.Context, g *guard.Guard, db *sql.DB, t *Table, key string, ttl time.Duration,
	fn func(ctx context.Context, tx *sql.Tx) (T, error),
) (T, error) {
	o := once[T]{db: db, table: t, key: key, ttl: ttl, fn: fn}
	if err := o.check(); err != nil {
		return o.result, err
	}
	if done, err := o.recall(ctx); done || err != nil {
		return o.result, err
	}
	err := g.Do(ctx, key, func(ctx context.Context) error {
		o.err = o.run(ctx)
		return o.err
	})
	if o.done { // whatever became of the lease
		return o.result, o.err
	}
	return o.result, err
}

// once is one call of [Once].
type once[T any] struct {
	db    *sql.DB
	table *Table
	key   string
	ttl   time.Duration
	fn    func(ctx context.Context, tx *sql.Tx) (T, error)

	result T
	err    error
	done   bool // the database has a result, which is result and err
}

func (o *once[T]) check() error {
	switch {
	case o.fn == nil:
		return fmt.Errorf("%w: sqlresult: the function is nil", guard.ErrInvalidOption)
	case o.db == nil || o.table == nil:
		return fmt.Errorf("%w: sqlresult: the database or the table is nil", guard.ErrInvalidOption)
	}
	return check(o.key, o.ttl)
}

// recall takes over the result that is there. done reports whether there is
// one.
func (o *once[T]) recall(ctx context.Context) (done bool, err error) {
	r, found, err := o.table.Recall(ctx, o.db, o.key)
	if err != nil || !found {
		return false, err
	}
	return true, o.takeOver(r)
}

func (o *once[T]) takeOver(r Record) error {
	var none T
	o.done, o.result = true, none
	if !r.Final {
		o.err = json.Unmarshal(r.Value, &o.result)
		return o.err
	}
	var final finalRecord
	if o.err = json.Unmarshal(r.Value, &final); o.err == nil {
		o.err = &guard.FinalError{Code: final.Code, Text: final.Text}
	}
	return o.err
}

// finalRecord is the value of a final error.
type finalRecord struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// run runs fn and commits its result, or takes over the result that another
// call has committed meanwhile.
func (o *once[T]) run(ctx context.Context) error {
	var other *Record
	ran := false
	err := o.table.in(ctx, o.db, func(tx *sql.Tx) error {
		r, found, err := o.table.first(ctx, tx, o.key)
		switch {
		case err != nil:
			return err
		case found:
			other = &r
			return ErrKept
		}
		if o.result, err = o.fn(ctx, tx); err != nil {
			return err
		}
		ran = true
		value, err := json.Marshal(o.result)
		if err != nil {
			return fmt.Errorf("sqlresult: write the result, all is rolled back: %w", err)
		}
		return o.table.Keep(ctx, tx, o.key, Record{Value: value}, o.ttl)
	})
	var final *guard.FinalError
	switch {
	case err == nil:
		o.done = true
		return nil
	case other != nil:
		return o.takeOver(*other)
	case ran:
		return o.lookAgain(ctx, err)
	case errors.As(err, &final):
		return o.keepFinal(ctx, final, err)
	}
	return err
}

// keepFinal keeps a final error of fn, whose transaction has been rolled back.
func (o *once[T]) keepFinal(ctx context.Context, final *guard.FinalError, err error) error {
	value, bad := json.Marshal(finalRecord{final.Code, final.Text})
	if bad == nil {
		bad = o.table.in(ctx, o.db, func(tx *sql.Tx) error {
			return o.table.Keep(ctx, tx, o.key, Record{Value: value, Final: true}, o.ttl)
		})
	}
	if bad != nil {
		return o.lookAgain(ctx, errors.Join(err, bad))
	}
	o.done = true
	return err
}

// lookLimit bounds the look for a result after an unclear end.
const lookLimit = 3 * time.Second

// lookAgain looks for a result after the transaction has ended with err. It may
// be that of another call, or that of this one if the answer to its COMMIT was
// lost.
func (o *once[T]) lookAgain(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	r, found, bad := o.table.Recall(ctx, o.db, o.key)
	if found {
		return o.takeOver(r)
	}
	if end := (*commitError)(nil); errors.As(err, &end) {
		err = fmt.Errorf("%w: %w", guard.ErrNotKept, err)
	}
	return errors.Join(err, bad)
}
