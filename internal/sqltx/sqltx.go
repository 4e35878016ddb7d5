// Package sqltx is what packages sqlfence and sqlresult do in a transaction,
// through database/sql and through other drivers.
package sqltx

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"regexp"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockerkit"
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
func Rows(q Rower) Querier { return rows{q} }

// Rower reads as an [sql.DB] and an [sql.Tx] do.
type Rower interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

type rows struct{ from Rower }

func (r rows) Row(ctx context.Context, query string, args []any, into ...any) error {
	return r.from.QueryRowContext(ctx, query, args...).Scan(into...)
}

// Statements runs statements as an [sql.DB] and an [sql.Tx] do.
type Statements interface {
	Rower
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// InTx makes a Runner of what runs the statements of a transaction. InTx
// returns guard.ErrInvalidOption for nil, and for what can begin a transaction
// and cannot commit: that is in none.
func InTx(tx Statements) (Runner, error) {
	if lockerkit.IsNil(tx) {
		return nil, fmt.Errorf("%w: the transaction is nil", guard.ErrInvalidOption)
	}
	has := func(name string) bool { return reflect.ValueOf(tx).MethodByName(name).IsValid() }
	if has("BeginTx") && !has("Commit") {
		return nil, fmt.Errorf("%w: a %T is no transaction", guard.ErrInvalidOption, tx)
	}
	return runnerOf(tx), nil
}

// runner runs statements through database/sql.
type runner struct {
	rows
	on Statements
}

func runnerOf(on Statements) runner { return runner{rows{on}, on} }

func (r runner) Exec(ctx context.Context, query string, args ...any) (affected int64, err error) {
	done, err := r.on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// SQLTx is a transaction of database/sql.
type SQLTx struct {
	runner
	Tx *sql.Tx
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
	return sqlDB{runnerOf(db), db}
}

type sqlDB struct {
	runner
	db *sql.DB
}

func (d sqlDB) Begin(ctx context.Context) (Tx, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return SQLTx{runnerOf(tx), tx}, nil
}
