package sqltx

import (
	"context"
	"fmt"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
)

// maxFenceKey is the max length of a key in the table, in bytes. A longer key
// is refused and never cut, because two cut keys could share a fence.
const maxFenceKey = 255

// fenceStatements are the statements of a dialect. %[1]s is the table.
type fenceStatements struct {
	schema string
	raise  string // inserts the token, or raises the row to it
	stored string // reads the token after raise; "" if raise returns it
}

var fenceDialects = map[Dialect]fenceStatements{
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

// Fences is a table of fences. Fences is safe for concurrent use.
type Fences struct{ fenceStatements }

// NewFences returns the fences in table, or guard.ErrInvalidOption.
func NewFences(d Dialect, table string) (*Fences, error) {
	if err := checkTable(d, table); err != nil {
		return nil, err
	}
	s := fenceDialects[d]
	for _, text := range []*string{&s.schema, &s.raise, &s.stored} {
		if *text != "" {
			*text = fmt.Sprintf(*text, table)
		}
	}
	return &Fences{s}, nil
}

// Schema returns the statement that creates the table.
func (f *Fences) Schema() string { return f.schema }

// Check refuses the token if a higher one was seen at key, and otherwise
// records it in the transaction in which tx runs statements.
func (f *Fences) Check(ctx context.Context, tx Runner, key string, token uint64) error {
	if err := fence.CheckToken(token); err != nil {
		return err
	}
	if key == "" || len(key) > maxFenceKey {
		return fmt.Errorf("%w: a key of %d bytes for a fence, want 1 to %d", guard.ErrInvalidOption, len(key),
			maxFenceKey)
	}
	newest, err := f.exchange(ctx, tx, key, int64(token))
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
func (f *Fences) exchange(ctx context.Context, tx Runner, key string, token int64) (newest int64, err error) {
	if f.stored == "" {
		err = tx.Row(ctx, f.raise, []any{key, token}, &newest)
		return newest, err
	}
	if _, err = tx.Exec(ctx, f.raise, key, token, token); err != nil {
		return 0, err
	}
	err = tx.Row(ctx, f.stored, []any{key}, &newest)
	return newest, err
}
