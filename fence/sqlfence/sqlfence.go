// Package sqlfence refuses late writes in an SQL database, through
// database/sql. It supports PostgreSQL, MySQL, MariaDB and SQLite. Package
// fence explains fencing and what to get right.
//
//	fences, err := sqlfence.New(sqlfence.PostgreSQL, "fences") // at start-up
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	defer func() { _ = tx.Rollback() }()
//	if err := fences.Check(ctx, tx, key, token); err != nil { // first of all
//		return err
//	}
//	...
//	return tx.Commit() // inside the guarded function
//
// Tests run on PostgreSQL, MariaDB and SQLite. MySQL gets the same
// statements as MariaDB.
//
// # Check comes first
//
// The highest token of each key of the guard is a row of one small table. Check
// writes the row. So it waits until all other transactions that have checked
// the same key have ended, and then reads what they left. That makes the order
// safe on each of these databases if Check is the first statement of its
// transaction:
//
//   - PostgreSQL: at READ COMMITTED, the default, the statements after Check
//     see everything that was committed before Check passed. At REPEATABLE READ
//     and above, one of two transactions that meet fails with SQLSTATE 40001.
//     Begin it again.
//   - MySQL and MariaDB: a plain SELECT before Check takes the snapshot that
//     all later ones read. That snapshot is older than the wait of Check.
//     Deadlocks (1213) are possible, as in every transaction. Begin again after
//     one: the server has rolled Check back too, and carries out the statements
//     that come after it without a fence.
//   - SQLite: a transaction that begins with a write gets the write lock at
//     once. Check is such a write. A transaction that begins with a read may
//     fail with SQLITE_BUSY in the middle. Set busy_timeout, or another writer
//     is an error at once.
//
// Check several keys in sorted order, or two transactions wait for each other.
//
// A holder that is stopped inside its transaction keeps the next one waiting in
// the database, even after its lease has ended. The caller's ctx bounds that
// wait. In SQLite busy_timeout bounds it, and ctx may not. A limit of the
// server ends it: idle_in_transaction_session_timeout in PostgreSQL,
// idle_write_transaction_timeout in MariaDB.
//
// So keep these transactions short, and ask no other service inside them. A
// step that reads, asks and writes needs two transactions, and both must check.
//
// # GORM
//
// In a transaction of GORM, Check takes the ConnPool of its statement:
//
//	err := db.Transaction(func(tx *gorm.DB) error {
//		if err := fences.Check(ctx, tx.Statement.ConnPool, key, token); err != nil {
//			return err
//		}
//		...
//	})
//
// # A column instead
//
// If the data is one row, the token can be a BIGINT column of that row. The
// check is then a condition of the UPDATE:
//
//	UPDATE stock SET n = n - 1, fence = $1 WHERE sku = $2 AND fence <= $1 AND n >= 1
//
// That is one statement and needs no table and no helper. But if no row
// changed, the cause may be a late write, nothing left, or no such row. The
// first write needs a row that exists.
//
// MySQL counts the rows changed, not the rows found. An UPDATE that leaves all
// values as they are counts 0, as the second one of a turn may. Set
// clientFoundRows=true in the DSN of go-sql-driver/mysql.
package sqlfence

import (
	"context"
	"database/sql"

	"github.com/go-lockguard/guard/internal/sqltx"
)

// Dialect is the SQL dialect of a database.
type Dialect int

// The dialects. MySQL is also the dialect of MariaDB.
const (
	PostgreSQL = Dialect(sqltx.PostgreSQL) // 9.5 or newer
	MySQL      = Dialect(sqltx.MySQL)
	SQLite     = Dialect(sqltx.SQLite) // 3.35 or newer
)

// A Tx runs the statements of a transaction. It is an [sql.Tx], or what a tool
// has for one, such as the ConnPool of GORM.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Table is a table of fences. It is safe for concurrent use.
type Table struct{ fences *sqltx.Fences }

// New returns the fences in the given table. The table's name is put into
// statements without quotes. New does no I/O. Its error Is
// guard.ErrInvalidOption.
func New(d Dialect, table string) (*Table, error) {
	fences, err := sqltx.NewFences(sqltx.Dialect(d), table)
	if err != nil {
		return nil, err
	}
	return &Table{fences}, nil
}

// Schema returns the statement that creates the table if it does not exist, for
// your migrations or for each start. Several processes may run it at once.
//
// The table keeps a row of about a hundred bytes for each key ever checked.
// Tokens from Redis are µs since 1970, or little more. So you can delete the
// rows of unused keys by their token, once no late writer can come.
func (t *Table) Schema() string { return t.fences.Schema() }

// Check refuses the token if a higher one was seen at key, and otherwise
// records it. Both end with tx, so a transaction that is rolled back leaves no
// trace. Call Check first in each transaction of a turn. That includes
// transactions which only read data that a later one writes.
//
// The Example of lab/fencetest in the repository calls Check on PostgreSQL,
// MariaDB and SQLite.
//
// key is the guard's key, of at most 255 bytes. PostgreSQL refuses a key that
// is not UTF-8 or has a NUL.
//
// Check waits while another transaction that has checked key is open, as long
// as ctx and the database allow. Its error Is fence.ErrLateWrite if it
// refused the token. The error Is guard.ErrInvalidOption for a key or token
// that is not valid, and for a tx that is no transaction but a database or a
// connection. Any other error is the driver's. Roll back after any error.
func (t *Table) Check(ctx context.Context, tx Tx, key string, token uint64) error {
	in, err := sqltx.InTx(tx)
	if err != nil {
		return err
	}
	return t.fences.Check(ctx, in, key, token)
}
