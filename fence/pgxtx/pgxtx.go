// Package pgxtx has fences and results in PostgreSQL for transactions of pgx,
// as packages sqlfence and sqlresult have for database/sql. The tables are the
// same, so one service may use pgx and another database/sql.
//
//	fences, err := pgxtx.NewFences("fences") // at start-up
//	results, err := pgxtx.NewResults("results")
//
//	receipt, err := pgxtx.Once(ctx, g, pool, results, key, 24*time.Hour,
//		func(ctx context.Context, tx pgx.Tx) (Receipt, error) {
//			...
//		})
//
// Behind a route the whole handler runs in the transaction:
//
//	lockmw.Idempotent(g, tenant, 24*time.Hour, httpopt.InTransactionOf(pgxtx.OnceIn(pool, results)))
package pgxtx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltx"
)

// DB is a [*github.com/jackc/pgx/v5/pgxpool.Pool], or a connection for one call
// at a time. A [pgx.Tx] is none, because what is committed in one is not yet
// there.
type DB interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// Fences is a table of fences. It is safe for concurrent use.
type Fences struct{ fences *sqltx.Fences }

// NewFences returns the fences in the given table, whose name is put into
// statements without quotes. NewFences does no I/O. Its error Is
// guard.ErrInvalidOption.
func NewFences(table string) (*Fences, error) {
	fences, err := sqltx.NewFences(sqltx.PostgreSQL, table)
	if err != nil {
		return nil, err
	}
	return &Fences{fences}, nil
}

// Schema is that of sqlfence.Table.
func (f *Fences) Schema() string { return f.fences.Schema() }

// Check is that of sqlfence.Table: it refuses the token with fence.ErrLateWrite
// if a higher one was seen at key, and otherwise records it. Call Check first
// in each transaction of a turn, and roll back after any error. Check blocks
// while another transaction that has checked key is open. It is as safe for
// concurrent use as tx.
func (f *Fences) Check(ctx context.Context, tx pgx.Tx, key string, token uint64) error {
	return f.fences.Check(ctx, runner{tx}, key, token)
}

// Results is a table of results. It is safe for concurrent use.
type Results struct{ results *sqltx.Results }

// NewResults returns the results in the given table, whose name is put into
// statements without quotes. NewResults does no I/O. Its error Is
// guard.ErrInvalidOption.
func NewResults(table string) (*Results, error) {
	results, err := sqltx.NewResults(sqltx.PostgreSQL, table)
	if err != nil {
		return nil, err
	}
	return &Results{results}, nil
}

// inner returns the results of r, or nil.
func (r *Results) inner() *sqltx.Results {
	if r == nil {
		return nil
	}
	return r.results
}

// Schema is that of sqlresult.Table.
func (r *Results) Schema() string { return r.results.Schema() }

// Forget deletes what is kept for key, and reports whether there was something,
// as that of sqlresult.Table does. It blocks for one statement. Its error is
// the database's.
func (r *Results) Forget(ctx context.Context, db DB, key string) (bool, error) {
	return r.results.Forget(ctx, runner{db}, key)
}

// Sweep deletes at most limit rows whose time is over, and returns how many.
// Call Sweep from time to time until it returns less than limit, as that of
// sqlresult.Table. It blocks for one statement. Its error is the database's.
func (r *Results) Sweep(ctx context.Context, db DB, limit int) (deleted int64, err error) {
	return r.results.Sweep(ctx, runner{db}, limit)
}

// Once is that of package sqlresult. It returns the result that r has for key.
// If there is none, Once runs fn in a transaction of db while it holds key, and
// commits what fn has written together with its result, which is kept for ttl.
// fn must not end the transaction, and must use the ctx that it gets. Once
// blocks as [guard.Guard.Do] does, and for the statements of the database. Its
// errors are those of sqlresult.Once. It is safe for concurrent use if db is a
// pool.
func Once[T any](ctx context.Context, g *guard.Guard, db DB, r *Results, key string, ttl time.Duration,
	fn func(ctx context.Context, tx pgx.Tx) (T, error),
) (T, error) {
	if fn == nil {
		var none T
		return none, sqltx.ErrNoFunc
	}
	return sqltx.Once(ctx, g, dbOf(db), r.inner(), key, ttl,
		func(ctx context.Context, tx sqltx.Tx) (T, error) { return fn(ctx, tx.(transaction).tx) })
}

// OnceIn returns the function for httpopt.InTransactionOf that keeps answers in
// r. The handler takes its transaction of db from its context by [TxFrom].
// OnceIn panics if db or r is nil.
func OnceIn(db DB, r *Results) func(ctx context.Context, g *guard.Guard, key string, o guard.OnceOptions,
	fn func(ctx context.Context) ([]byte, error)) (guard.OnceResult, error) {
	if db == nil || r == nil {
		panic("pgxtx: OnceIn without a database or a table")
	}
	return func(ctx context.Context, g *guard.Guard, key string, o guard.OnceOptions,
		fn func(ctx context.Context) ([]byte, error),
	) (guard.OnceResult, error) {
		return sqltx.OnceBytes(ctx, g, dbOf(db), r.inner(), key, o,
			func(ctx context.Context, _ sqltx.Tx) ([]byte, error) { return fn(ctx) })
	}
}

// TxFrom returns the transaction of the function that runs with ctx, and
// reports whether there is one. It is for functions that do not get it, such as
// handlers. It does not block, and is safe for concurrent use.
func TxFrom(ctx context.Context) (tx pgx.Tx, found bool) {
	t, found := sqltx.TxFrom(ctx).(transaction)
	return t.tx, found
}

// runner runs statements for [sqltx].
type runner struct {
	on interface {
		Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
		QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
	}
}

func (r runner) Exec(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	done, err := r.on.Exec(ctx, statement, args...)
	return done.RowsAffected(), known(err)
}

func (r runner) Row(ctx context.Context, statement string, args []any, into ...any) error {
	return known(r.on.QueryRow(ctx, statement, args...).Scan(into...))
}

// known returns err as database/sql would. pgx.ErrNoRows already Is
// sql.ErrNoRows.
func known(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return fmt.Errorf("%w: %w", sql.ErrTxDone, err)
	}
	return err
}

// database is a DB for [sqltx].
type database struct {
	runner
	db DB
}

func dbOf(db DB) sqltx.DB {
	if db == nil {
		return nil
	}
	return database{runner{db}, db}
}

func (d database) Begin(ctx context.Context) (sqltx.Tx, error) {
	tx, err := d.db.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return nil, err
	}
	return transaction{runner{tx}, context.WithoutCancel(ctx), tx}, nil
}

// transaction is a pgx.Tx for [sqltx].
type transaction struct {
	runner
	ctx context.Context //nolint:containedctx // does not end, so that Rollback has one
	tx  pgx.Tx
}

func (t transaction) Commit(ctx context.Context) error { return known(t.tx.Commit(ctx)) }

// rollbackTime is the max time for which Rollback waits for the server. After
// it pgx closes the connection, which rolls back too.
const rollbackTime = 3 * time.Second

func (t transaction) Rollback() {
	ctx, cancel := context.WithTimeout(t.ctx, rollbackTime)
	defer cancel()
	_ = t.tx.Rollback(ctx)
}
