// Package sqltx is what packages sqlfence and sqlresult do in a transaction,
// through database/sql and through other drivers.
package sqltx

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"

	"github.com/go-lockguard/guard"
)

// Querier reads.
type Querier interface {
	// Row scans the only row of a query. The error is sql.ErrNoRows if there is
	// none.
	Row(ctx context.Context, query string, args []any, into ...any) error
}

// Runner runs statements, in a transaction or not. Its error is sql.ErrTxDone
// after the end of the transaction.
type Runner interface {
	Querier
	Exec(ctx context.Context, query string, args ...any) (affected int64, err error)
}

// Tx is a transaction. Only the goroutine that has begun it uses it.
type Tx interface {
	Runner
	Commit(ctx context.Context) error
	Rollback() // nothing, after the end of the transaction
}

// DB is a database. DB is safe for concurrent use.
type DB interface {
	Runner
	Begin(ctx context.Context) (Tx, error)
}

// Dialect is the SQL dialect of a database.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1
	MySQL
	SQLite
)

// identifier matches a table's name, with its schema if needed. The name is put
// into SQL without quotes.
var identifier = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// checkTable returns guard.ErrInvalidOption for a bad dialect or table.
func checkTable(d Dialect, table string) error {
	if d < PostgreSQL || d > SQLite {
		return fmt.Errorf("%w: dialect %d, want sqlfence.PostgreSQL, MySQL or SQLite", guard.ErrInvalidOption, d)
	}
	if !identifier.MatchString(table) {
		return fmt.Errorf("%w: table %q, want letters, digits and _, with a schema in front if need be",
			guard.ErrInvalidOption, table)
	}
	return nil
}

// Rows makes a Querier of what database/sql reads with.
func Rows(q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) Querier {
	return rows{q}
}

type rows struct {
	from interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
}

func (r rows) Row(ctx context.Context, query string, args []any, into ...any) error {
	return r.from.QueryRowContext(ctx, query, args...).Scan(into...)
}

// TxOf makes a Tx of tx.
func TxOf(tx *sql.Tx) SQLTx { return SQLTx{rows{tx}, tx} }

// SQLTx is a transaction of database/sql.
type SQLTx struct {
	Querier
	Tx *sql.Tx
}

// Exec implements [Runner].
func (t SQLTx) Exec(ctx context.Context, query string, args ...any) (affected int64, err error) {
	return affectedBy(t.Tx.ExecContext(ctx, query, args...))
}

// Commit implements [Tx]. The transaction knows its context.
func (t SQLTx) Commit(context.Context) error { return t.Tx.Commit() }

// Rollback implements [Tx].
func (t SQLTx) Rollback() { _ = t.Tx.Rollback() }

// DBOf makes a DB of db, or nil of nil.
func DBOf(db *sql.DB) DB {
	if db == nil {
		return nil
	}
	return sqlDB{rows{db}, db}
}

type sqlDB struct {
	Querier
	db *sql.DB
}

func (d sqlDB) Exec(ctx context.Context, query string, args ...any) (affected int64, err error) {
	return affectedBy(d.db.ExecContext(ctx, query, args...))
}

func (d sqlDB) Begin(ctx context.Context) (Tx, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return TxOf(tx), nil
}

func affectedBy(done sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
