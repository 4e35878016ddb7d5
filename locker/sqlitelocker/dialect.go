package sqlitelocker

import (
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/sqllease"
)

const (
	store = "sqlitelocker"
	now   = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
)

var dialect = sqllease.Dialect{
	Name: store,
	Create: `CREATE TABLE IF NOT EXISTS %s (
  k       BLOB    NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL, -- changes with each write
  written INTEGER NOT NULL, -- when: µs since 1970
  ends    INTEGER NOT NULL, -- when the row means nothing any more
  value   BLOB    NOT NULL  -- owner id, '/', JSON of package rowlocker
) WITHOUT ROWID`,
	Now:   now,
	Grain: time.Millisecond,
	// SQLite reads each statement anew, so the time stands there once. WHERE
	// tells ON CONFLICT from the ON of a join.
	Values: `SELECT column1, column2, now, now + column3, column4
  FROM (SELECT ` + now + ` AS now), (VALUES %s) WHERE true`,
	Row: "(?,?,?,?)",
	// NULL breaks the rule NOT NULL, which ends the whole statement.
	Upsert: `ON CONFLICT (k) DO UPDATE SET
  version = CASE WHEN version = excluded.version - 1 OR excluded.version < 0 THEN excluded.version END,
  written = excluded.written, ends = excluded.ends, value = excluded.value`,
	ReadOnly: "0", // a write tells
	Judge:    judgeError,
	Check:    check,
	Findings: []string{FindingJournal, FindingMemory, FindingRights, FindingRoundTrip, FindingSchema},
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
