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
//     one.
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
	"fmt"
	"regexp"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
)

// Dialect is the SQL dialect of a database.
type Dialect int

// The dialects. MySQL is also the dialect of MariaDB.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 or newer
	MySQL
	SQLite // 3.35 or newer
)

// maxKey is the max length of a key in the table, in bytes. A longer key is
// refused and never cut, because two cut keys could share a fence.
const maxKey = 255

// statements are the statements of a dialect. %[1]s is the table.
type statements struct {
	schema string
	raise  string // inserts the token, or raises the row to it
	stored string // reads the token after raise; "" if raise returns it
}

var dialects = map[Dialect]statements{
	PostgreSQL: {
		// Two sessions that create a table at once would fail with 23505.
		schema: "DO $$ BEGIN PERFORM pg_advisory_xact_lock(7310863, 0); " +
			"CREATE TABLE IF NOT EXISTS %[1]s (name VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL); END $$",
		raise: "INSERT INTO %[1]s AS f (name, token) VALUES ($1, $2) " +
			"ON CONFLICT (name) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token) RETURNING token",
	},
	MySQL: {
		// VARBINARY, because other types treat "A" or "a " as equal to "a".
		// InnoDB, because other engines have no transactions.
		schema: "CREATE TABLE IF NOT EXISTS %[1]s (name VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL) " +
			"ENGINE = InnoDB",
		raise: "INSERT INTO %[1]s (name, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)",
		// The number of affected rows does not help, because it is 0 for a
		// lower token as well as for the same. FOR UPDATE is needed because a
		// plain read may use a snapshot that is older than the row.
		stored: "SELECT token FROM %[1]s WHERE name = ? FOR UPDATE",
	},
	SQLite: {
		schema: "CREATE TABLE IF NOT EXISTS %[1]s (name TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID",
		raise: "INSERT INTO %[1]s (name, token) VALUES (?, ?) " +
			"ON CONFLICT (name) DO UPDATE SET token = max(token, excluded.token) RETURNING token",
	},
}

// Table is a table of fences. It is safe for concurrent use.
type Table struct{ statements }

// identifier matches a table's name, with its schema if needed. The name is put
// into SQL without quotes.
var identifier = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// New returns the fences in the given table. The table's name is put into
// statements without quotes. New does no I/O. Its error Is
// guard.ErrInvalidOption.
func New(d Dialect, table string) (*Table, error) {
	s, ok := dialects[d]
	if !ok {
		return nil, fmt.Errorf("%w: dialect %d, want sqlfence.PostgreSQL, MySQL or SQLite", guard.ErrInvalidOption, d)
	}
	if !identifier.MatchString(table) {
		return nil, fmt.Errorf("%w: table %q, want letters, digits and _, with a schema in front if need be",
			guard.ErrInvalidOption, table)
	}
	for _, text := range []*string{&s.schema, &s.raise, &s.stored} {
		if *text != "" {
			*text = fmt.Sprintf(*text, table)
		}
	}
	return &Table{s}, nil
}

// Schema returns the statement that creates the table if it does not exist, for
// your migrations or for each start. Several processes may run it at once.
//
// The table keeps a row of about a hundred bytes for each key ever checked.
// Tokens from Redis are µs since 1970, or little more. So you can delete the
// rows of unused keys by their token, once no late writer can come.
func (t *Table) Schema() string { return t.schema }

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
// as ctx and the database allow. Its error Is [fence.ErrLateWrite] if it
// refused the token. The error Is guard.ErrInvalidOption for a key or token
// that is not valid. Any other error is the driver's. Roll back after any
// error.
func (t *Table) Check(ctx context.Context, tx *sql.Tx, key string, token uint64) error {
	if err := fence.CheckToken(token); err != nil {
		return err
	}
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("%w: a key of %d bytes for a fence, want 1 to %d", guard.ErrInvalidOption, len(key), maxKey)
	}
	newest, err := t.exchange(ctx, tx, key, int64(token))
	if err != nil {
		return fmt.Errorf("sqlfence: check the token: %w", err)
	}
	if newest > int64(token) {
		return &fence.LateWriteError{Token: token, Newest: uint64(newest)}
	}
	return nil
}

// exchange raises the token at key to the given one, and returns the token that
// is stored then.
func (t *Table) exchange(ctx context.Context, tx *sql.Tx, key string, token int64) (newest int64, err error) {
	if t.stored == "" {
		err = tx.QueryRowContext(ctx, t.raise, key, token).Scan(&newest)
		return newest, err
	}
	if _, err = tx.ExecContext(ctx, t.raise, key, token, token); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, t.stored, key).Scan(&newest)
	return newest, err
}
