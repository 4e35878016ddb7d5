package sqlresult

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/internal/sqltx"
)

// Dialect is the SQL dialect of a database.
type Dialect = sqlfence.Dialect

// The dialects. MySQL is also the dialect of MariaDB.
const (
	PostgreSQL = sqlfence.PostgreSQL // 9.5 or newer
	MySQL      = sqlfence.MySQL
	SQLite     = sqlfence.SQLite // 3.35 or newer
)

// A Tx runs the statements of a transaction. It is an [sql.Tx], or what a tool
// has for one, such as the ConnPool of GORM.
type Tx = sqlfence.Tx

// ErrKept says that the key has a result already. The transaction must be
// rolled back, and [Table.Recall] returns the result.
var ErrKept = sqltx.ErrKept

// MaxKey is the max length of a key in the table, in bytes. A longer key is
// refused and never cut, because two cut keys would share a result.
const MaxKey = sqltx.MaxKey

// Record is what is kept for a key.
type Record struct {
	Value       []byte
	Fingerprint []byte // of the request, at most 32 bytes; a call with another one is refused
	Final       bool   // Value is an error that guard.Final made, not a result
}

// Table is a table of results. It is safe for concurrent use.
type Table struct{ results *sqltx.Results }

// New returns the results in the given table. The table's name is put into
// statements without quotes. New does no I/O. Its error Is
// guard.ErrInvalidOption.
func New(d Dialect, table string) (*Table, error) {
	results, err := sqltx.NewResults(sqltx.Dialect(d), table)
	if err != nil {
		return nil, err
	}
	return &Table{results}, nil
}

// inner returns the results of t, or nil.
func (t *Table) inner() *sqltx.Results {
	if t == nil {
		return nil
	}
	return t.results
}

// Schema returns the SQL that creates the table and its index if they do not
// exist, for your migrations or for each start. One Exec without arguments runs
// it. Several processes may run it at once.
func (t *Table) Schema() string { return t.results.Schema() }

// A Queryer is an [sql.DB], [sql.Conn] or [sql.Tx].
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Recall returns what is kept for key, and reports whether there is something.
// The call blocks for one statement. The error is the database's.
func (t *Table) Recall(ctx context.Context, q Queryer, key string) (r Record, found bool, err error) {
	kept, found, err := t.results.Recall(ctx, sqltx.Rows(q), key)
	return Record(kept), found, err
}

// Keep keeps r for key until ttl has passed. It must be the last statement of
// tx. The record is there if and only if tx is committed.
//
// Do not call Keep after a deadlock in MySQL, which has rolled tx back. Keep
// would begin another transaction, with the record alone.
//
// Keep waits while another open transaction keeps something for key, as long as
// ctx and the database allow. It returns [ErrKept] if the key has a result,
// guard.ErrInvalidKey or guard.ErrInvalidOption for a key, ttl or transaction
// that is none, and else the database's error. Roll back after any error.
func (t *Table) Keep(ctx context.Context, tx Tx, key string, r Record, ttl time.Duration) error {
	in, err := sqltx.InTx(tx)
	if err != nil {
		return err
	}
	return t.results.Keep(ctx, in, key, sqltx.Record(r), ttl)
}

// Forget deletes what is kept for key, and reports whether there was something.
// A transaction that runs meanwhile keeps its result. It blocks for one
// statement. Its error is the database's.
func (t *Table) Forget(ctx context.Context, db *sql.DB, key string) (bool, error) {
	return t.results.Forget(ctx, sqltx.DBOf(db), key)
}

// Sweep deletes at most limit rows whose time is over, and returns how many.
// Nothing else deletes the row of a key that is not used again. Call Sweep from
// time to time until it returns less than limit. It blocks for one statement.
// Its error is the database's.
func (t *Table) Sweep(ctx context.Context, db *sql.DB, limit int) (deleted int64, err error) {
	return t.results.Sweep(ctx, sqltx.DBOf(db), limit)
}
