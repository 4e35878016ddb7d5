package sqltx

import "strings"

// resultStatements are the statements of a dialect. {table} stands for the name
// of the table, {schema} and {bare} for its parts, and {now} for the clock of
// SQLite.
type resultStatements struct {
	name    string
	schema  string
	begin   string // takes the lock of a write transaction, if need be
	mark    string // sets a savepoint, where the database may end a transaction and go on
	unmark  string // fails if the savepoint is gone
	recall  string
	expired string // looks for a row whose time is over, if keep does not replace it
	drop    string // deletes it
	keep    string // affects one row if the result is kept
	forget  string
	sweep   string
}

// An expired row counts as absent. Keep replaces it by the statement that
// inserts, so that two transactions that do so meet at the primary key.
var resultDialects = map[Dialect]resultStatements{
	PostgreSQL: {
		// Two sessions that create a table at once would fail with 23505.
		schema: "DO $$ BEGIN PERFORM pg_advisory_xact_lock(7310863, 0); " +
			"CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(255) PRIMARY KEY, value BYTEA NOT NULL, " +
			"fingerprint BYTEA NOT NULL, final BOOLEAN NOT NULL, until TIMESTAMPTZ NOT NULL); " +
			"CREATE INDEX IF NOT EXISTS {bare}_until ON {table} (until); END $$",
		recall: "SELECT value, fingerprint, final FROM {table} WHERE name = $1 AND until > statement_timestamp()",
		keep: "INSERT INTO {table} AS r (name, value, fingerprint, final, until) " +
			"VALUES ($1, $2, $3, $4, statement_timestamp() + $5::bigint * INTERVAL '1 microsecond') " +
			"ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value, " +
			"fingerprint = EXCLUDED.fingerprint, final = EXCLUDED.final, until = EXCLUDED.until " +
			"WHERE r.until <= statement_timestamp()",
		forget: "DELETE FROM {table} WHERE name = $1 AND until > statement_timestamp()",
		sweep: "DELETE FROM {table} WHERE name = ANY (ARRAY(SELECT name FROM {table} " +
			"WHERE until <= statement_timestamp() ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED))",
	},
	MySQL: {
		// VARBINARY, because other types treat "A" or "a " as equal to "a".
		// InnoDB, because other engines have no transactions.
		schema: "CREATE TABLE IF NOT EXISTS {table} (name VARBINARY(255) PRIMARY KEY, value MEDIUMBLOB NOT NULL, " +
			"fingerprint VARBINARY(32) NOT NULL, final BOOLEAN NOT NULL, until DATETIME(6) NOT NULL, INDEX (until)) " +
			"ENGINE = InnoDB",
		mark:   "SAVEPOINT guard_result",
		unmark: "RELEASE SAVEPOINT guard_result",
		recall: "SELECT value, fingerprint, final FROM {table} WHERE name = ? AND until > UTC_TIMESTAMP(6)",
		// A DELETE that finds no row locks the gap where it would be, and two
		// of those are a deadlock. So one that finds its row comes after a
		// look.
		expired: "SELECT 1 FROM {table} WHERE name = ? AND until <= UTC_TIMESTAMP(6)",
		drop:    "DELETE FROM {table} WHERE name = ? AND until <= UTC_TIMESTAMP(6)",
		// A row that is there is changed, and rolled back: a change counts as
		// two rows, and a row left as it is as none or one.
		keep: "INSERT INTO {table} (name, value, fingerprint, final, until) " +
			"VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) " +
			"ON DUPLICATE KEY UPDATE until = until + INTERVAL 1 MICROSECOND",
		forget: "DELETE FROM {table} WHERE name = ? AND until > UTC_TIMESTAMP(6)",
		sweep:  "DELETE FROM {table} WHERE until <= UTC_TIMESTAMP(6) ORDER BY until LIMIT ?",
	},
	SQLite: {
		schema: "CREATE TABLE IF NOT EXISTS {table} (name TEXT PRIMARY KEY, value BLOB NOT NULL, " +
			"fingerprint BLOB NOT NULL, final BOOLEAN NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID; " +
			"CREATE INDEX IF NOT EXISTS {schema}{bare}_until ON {bare} (until)",
		begin:  "DELETE FROM {table} WHERE name = ? AND until <= {now}",
		mark:   "SAVEPOINT guard_result",
		unmark: "RELEASE SAVEPOINT guard_result",
		recall: "SELECT value, fingerprint, final FROM {table} WHERE name = ? AND until > {now}",
		keep: "INSERT INTO {table} (name, value, fingerprint, final, until) VALUES (?, ?, ?, ?, {now} + ?) " +
			"ON CONFLICT (name) DO UPDATE SET value = excluded.value, " +
			"fingerprint = excluded.fingerprint, final = excluded.final, until = excluded.until " +
			"WHERE until <= {now}",
		forget: "DELETE FROM {table} WHERE name = ? AND until > {now}",
		sweep: "DELETE FROM {table} WHERE name IN (SELECT name FROM {table} WHERE until <= {now} " +
			"ORDER BY until LIMIT ?)",
	},
}

// sqliteNow is SQLite's clock in µs since 1970. It goes in steps of 1 ms.
const sqliteNow = "(1000 * CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))"

// of returns the statements for a table.
func (s resultStatements) of(table string) resultStatements {
	bare := table[strings.LastIndexByte(table, '.')+1:]
	fill := strings.NewReplacer("{table}", table, "{schema}", strings.TrimSuffix(table, bare), "{bare}", bare,
		"{now}", sqliteNow).Replace
	s.name = table
	for _, text := range []*string{&s.schema, &s.begin, &s.recall, &s.expired, &s.drop, &s.keep, &s.forget, &s.sweep} {
		*text = fill(*text)
	}
	return s
}
