// Package sqlfence refuses late writes in an SQL database, through
// database/sql: PostgreSQL, MySQL, MariaDB and SQLite. See package fence for
// what fencing is, and what to get right.
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
// It is tested on PostgreSQL, MariaDB and SQLite; what it says to MySQL is what
// it says to MariaDB.
//
// # Check comes first
//
// The highest token of each key of the guard is a row of one small table. Check
// writes it, so it waits until other transactions that have checked the same
// key have ended, and then reads what they left. That makes the order safe on
// each of these databases, if it is the first statement of its transaction:
//
//   - PostgreSQL: at READ COMMITTED, the default, the statements behind Check see what was committed before it passed. At
//     REPEATABLE READ and above, one of two transactions that meet fails with SQLSTATE 40001: begin it again.
//   - MySQL and MariaDB: a plain SELECT in front of Check takes the snapshot that all later ones read, of a time before Check
//     has waited. Deadlocks (1213) are possible, as in every transaction: begin it again.
//   - SQLite: a transaction that begins with a write, as Check is, gets the write lock at once; one that begins with a read may
//     fail with SQLITE_BUSY in the middle. Set busy_timeout, or another writer is an error at once.
//
// Check several keys in sorted order, or two transactions wait for each other.
//
// A holder that is stopped inside its transaction keeps the next one waiting in
// the database, whatever became of its lease. The caller's ctx bounds that wait
// (in SQLite busy_timeout does, and ctx need not), and a limit of the server
// ends it: idle_in_transaction_session_timeout in PostgreSQL,
// idle_write_transaction_timeout in MariaDB. So keep these transactions short,
// and ask nobody else inside them: a step that reads, asks and writes has two,
// and both check.
//
// # A column instead
//
// If the data is one row, the token can be a BIGINT column of it, and the check
// a condition of the UPDATE:
//
//	UPDATE stock SET n = n - 1, fence = $1 WHERE sku = $2 AND fence <= $1 AND n >= 1
//
// That is one statement and needs no table, and no helper. But no row changed
// may mean a late write, nothing left, or no such row, and the first write
// needs a row that is there. And MySQL counts the rows changed, not found: an
// UPDATE that leaves all values as they are, as the second one of a turn may,
// counts 0. Set clientFoundRows=true in the DSN of go-sql-driver/mysql.
package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
)

// Dialect is how a database is spoken to.
type Dialect int

// The dialects. MySQL is MariaDB's too.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 or newer
	MySQL
	SQLite // 3.35 or newer
)

// maxKey is how many bytes of a key the table holds. A longer one is refused,
// never cut: two keys would share a fence.
const maxKey = 255

// statements are those of a dialect; %[1]s is the table.
type statements struct {
	schema string
	raise  string // inserts the token, or raises the row to it
	stored string // reads the token after raise; "": raise returns it
}

var dialects = map[Dialect]statements{
	PostgreSQL: {
		schema: "CREATE TABLE IF NOT EXISTS %[1]s (name VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL)",
		raise: "INSERT INTO %[1]s AS f (name, token) VALUES ($1, $2) " +
			"ON CONFLICT (name) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token) RETURNING token",
	},
	MySQL: {
		// VARBINARY: other types take "a" for "A", or for "a ". InnoDB: others
		// have no transactions.
		schema: "CREATE TABLE IF NOT EXISTS %[1]s (name VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL) " +
			"ENGINE = InnoDB",
		raise: "INSERT INTO %[1]s (name, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)",
		// The rows affected do not tell: 0 is a lower token as well as the
		// same. FOR UPDATE: a plain read may be of a snapshot that is older
		// than the row.
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

// identifier is a table's name, with its schema if need be. It stands in SQL as
// it is.
var identifier = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// New returns the fences in the table of that name, which is put into
// statements without quotes. It does no I/O. Its error Is
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

// Schema returns the statement that creates the table if it is not there, for
// your migrations.
//
// A row stays for each key ever checked, about a hundred bytes. Tokens of Redis
// are µs since 1970, or little more, so those of keys that nobody uses any more
// can be deleted by their token, once no late writer can come.
func (t *Table) Schema() string { return t.schema }

// Check refuses the token if a higher one was seen at key, and notes it
// otherwise; both end with tx, so a transaction that is rolled back leaves no
// trace. Call it first in each transaction of a turn, in those too that read
// what is written later. key is the guard's key, of at most 255 bytes;
// PostgreSQL refuses one that is no UTF-8 or has a NUL.
//
// It waits while another transaction that has checked key is open, for as long
// as ctx and the database let it. Its error Is [fence.ErrLateWrite] if it
// refused, guard.ErrInvalidOption for a key or token that cannot be, and
// otherwise the driver's. Whatever the error is, roll back.
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

// exchange raises the token at key to the given one, and returns what is stored
// then.
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
