package mysqllocker

import (
	"regexp"
	"strconv"
	"time"

	"github.com/go-lockguard/guard/internal/sqllease"
)

const store = "mysqllocker"

var dialect = sqllease.Dialect{
	Name: store,
	Create: `CREATE TABLE IF NOT EXISTS %s (
  k       VARBINARY(255) NOT NULL PRIMARY KEY,
  version BIGINT         NOT NULL, -- changes with each write
  owner   VARBINARY(32)  NOT NULL, -- owner id; '' is nobody
  ends    BIGINT         NOT NULL, -- of the lease: µs since 1970, UTC
  token   BIGINT         NOT NULL, -- first of the last block of fencing tokens
  holder  BLOB           NOT NULL, -- JSON: who owns the key
  crowd   MEDIUMBLOB     NOT NULL, -- JSON: the claims that own the key together
  queue   MEDIUMBLOB     NOT NULL, -- JSON: the claims that wait, in their order
  kept_by   VARBINARY(32) NOT NULL, -- owner id of the claim that left the record; '' is none
  kept_mark BOOLEAN       NOT NULL, -- the record is a mark
  kept_ends BIGINT        NOT NULL, -- when the record goes
  kept_size BIGINT        NOT NULL, -- bytes
  kept      MEDIUMBLOB,             -- the record
  KEY (kept_ends)
) ENGINE = InnoDB`,
	// UNIX_TIMESTAMP(NOW(6)) would be wrong for an hour when summer time ends.
	Now:   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))",
	Grain: time.Microsecond,
	// A sum that is out of range ends the whole statement. The columns are
	// assigned from left to right, so version is the last.
	Upsert: `ON DUPLICATE KEY UPDATE
  owner = VALUES(owner), ends = VALUES(ends), token = VALUES(token), holder = VALUES(holder), crowd = VALUES(crowd),
  queue = VALUES(queue),
  kept_by = VALUES(kept_by), kept_mark = VALUES(kept_mark), kept_ends = VALUES(kept_ends),
  kept_size = VALUES(kept_size), kept = COALESCE(VALUES(kept), kept),
  version = version + IF(version = VALUES(version) - 1, 1, 9223372036854775807)`,
	Judge:   judgeError,
	Check:   check,
	Rights:  "GRANT SELECT, INSERT, UPDATE, DELETE ON %s to the user",
	Workers: 2,
}

// number finds the number of a server's error. The text of every driver has it.
var number = regexp.MustCompile(`^Error (\d{4})\b`)

// verdicts are the errors of the server that are known.
var verdicts = map[int]sqllease.Verdict{
	1690: sqllease.Again, // out of range: by Upsert
	1205: sqllease.Again, // waited too long for a lock
	1213: sqllease.Again, // deadlock
	1020: sqllease.Again, // the row has changed

	1044: sqllease.NoRight,
	1045: sqllease.NoRight,
	1142: sqllease.NoRight,
	1143: sqllease.NoRight,
	1227: sqllease.NoRight,
	1698: sqllease.NoRight,

	1046: sqllease.NoTable,
	1049: sqllease.NoTable,
	1054: sqllease.NoTable,
	1146: sqllease.NoTable,

	1064: sqllease.Other,
	1305: sqllease.Other,
	1366: sqllease.Other,
	1406: sqllease.Other,
}

func judgeError(err error) sqllease.Verdict {
	m := number.FindStringSubmatch(err.Error())
	if m == nil {
		return sqllease.Unavailable
	}
	n, _ := strconv.Atoi(m[1])
	return verdicts[n]
}
