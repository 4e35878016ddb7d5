package sqlitelocker

import (
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/sqllease"
)

const store = "sqlitelocker"

var dialect = sqllease.Dialect{
	Name: store,
	Create: `CREATE TABLE IF NOT EXISTS %s (
  k       BLOB    NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL, -- changes with each write
  owner   TEXT    NOT NULL, -- owner id; '' is nobody
  ends    INTEGER NOT NULL, -- of the lease: µs since 1970
  token   INTEGER NOT NULL, -- first of the last block of fencing tokens
  holder  BLOB    NOT NULL, -- JSON: who owns the key
  crowd   BLOB    NOT NULL, -- JSON: the claims that own the key together
  queue   BLOB    NOT NULL, -- JSON: the claims that wait, in their order
  record_by   TEXT    NOT NULL, -- owner id of the claim that left the record; '' is none
  record_mark INTEGER NOT NULL, -- the record is a mark
  record_ends INTEGER NOT NULL, -- when the record goes
  record_size INTEGER NOT NULL, -- bytes
  record      BLOB              -- the record
) WITHOUT ROWID`,
	Now:   "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
	Grain: time.Millisecond,
	// NULL breaks the rule NOT NULL, which ends the whole statement.
	Upsert: `ON CONFLICT (k) DO UPDATE SET
  version = CASE WHEN version = excluded.version - 1 THEN excluded.version END,
  owner = excluded.owner, ends = excluded.ends, token = excluded.token,
  holder = excluded.holder, crowd = excluded.crowd, queue = excluded.queue,
  record_by = excluded.record_by, record_mark = excluded.record_mark, record_ends = excluded.record_ends,
  record_size = excluded.record_size, record = coalesce(excluded.record, record)`,
	ReadOnly: "0", // a write tells
	Judge:    judgeError,
	Check:    check,
	Rights:   "the process must be allowed to write the file of %s and its directory",
	Workers:  1, // as SQLite has one writer
}

// verdicts tell errors apart by their text, because each driver has types of
// its own. The texts are SQLite's.
var verdicts = []struct {
	text string
	sqllease.Verdict
}{
	{"NOT NULL constraint failed", sqllease.Again}, // by Upsert
	{"database is locked", sqllease.Again},
	{"database table is locked", sqllease.Again},
	{"database schema is locked", sqllease.Again},
	{"SQLITE_BUSY", sqllease.Again},
	{"no such table", sqllease.NoTable},
	{"no such column", sqllease.NoTable},
	{"has no column named", sqllease.NoTable},
	{"unknown database", sqllease.NoTable},
	{"readonly database", sqllease.NoRight},
	{"not authorized", sqllease.NoRight},
	{"access permission denied", sqllease.NoRight},
	{"unable to open database file", sqllease.NoRight},
	{"file is not a database", sqllease.Other},
	{"disk image is malformed", sqllease.Other},
	{"syntax error", sqllease.Other},
	{"converting NULL", sqllease.Other}, // the clock, before 3.42
}

func judgeError(err error) sqllease.Verdict {
	for _, v := range verdicts {
		if strings.Contains(err.Error(), v.text) {
			return v.Verdict
		}
	}
	return sqllease.Unavailable
}
