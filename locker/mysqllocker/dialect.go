package mysqllocker

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/sqllease"
)

const (
	store = "mysqllocker"
	// UNIX_TIMESTAMP(NOW(6)) would be wrong for an hour when summer time ends.
	now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
)

var dialect = sqllease.Dialect{
	Name: store,
	Create: `CREATE TABLE IF NOT EXISTS %s (
  k       VARBINARY(255) NOT NULL PRIMARY KEY,
  version BIGINT         NOT NULL, -- changes with each write
  written BIGINT         NOT NULL, -- when: µs since 1970, UTC
  ends    BIGINT         NOT NULL, -- when the row means nothing any more
  value   MEDIUMBLOB     NOT NULL, -- owner id, '/', JSON of package rowlocker
  KEY (ends)
) ENGINE = InnoDB`,
	Now:    now,
	Grain:  time.Microsecond,
	Values: "VALUES %s",
	Row:    "(?, ?, " + now + ", " + now + " + ?, ?)",
	// A sum that is out of range ends the whole statement. The columns are
	// assigned from left to right, so version is the last.
	Upsert: `ON DUPLICATE KEY UPDATE
  written = VALUES(written), ends = VALUES(ends), value = VALUES(value),
  version = IF(VALUES(version) < 0, VALUES(version),
    version + IF(version = VALUES(version) - 1, 1, 9223372036854775807))`,
	Bound:    bound,
	ReadOnly: "CONCAT(@@read_only) NOT IN ('0', 'OFF') OR @@innodb_read_only",
	Judge:    judgeError,
	Advice:   advise,
	Check:    check,
	Findings: []string{
		FindingAutocommit, FindingDurability, FindingLockWait, FindingPrepare, FindingReadOnly, FindingRights,
		FindingRoundTrip, FindingSchema,
	},
	Rights:  "GRANT SELECT, INSERT, UPDATE, DELETE ON %s to the user",
	Workers: 2,
}

// bound bounds a statement on MariaDB, which alone reads the text of such a
// comment. MySQL can bound only sessions, see package mysqldsn.
func bound(limit time.Duration) string {
	return fmt.Sprintf("/*M! SET STATEMENT max_statement_time = %.3f FOR */ ", limit.Seconds())
}

// number finds the number of a server's error. The text of every driver has it.
var number = regexp.MustCompile(`^Error (\d{4})\b`)

// readOnly finds the option that refused a statement, in error 1290.
var readOnly = regexp.MustCompile(`read.only`)

// numberOf returns the number of an error of the server, or 0.
func numberOf(err error) int {
	m := number.FindStringSubmatch(err.Error())
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// verdicts are the errors of the server that are known.
var verdicts = map[int]sqllease.Verdict{
	1690: sqllease.Again, // out of range: by Upsert
	1205: sqllease.Again, // waited too long for a lock
	1213: sqllease.Again, // deadlock
	1020: sqllease.Again, // the row has changed
	1969: sqllease.Again, // ended by bound

	1792: sqllease.ReadOnly, // the transactions of this session
	1836: sqllease.ReadOnly,

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
	n := numberOf(err)
	if n == errOption && readOnly.MatchString(err.Error()) {
		return sqllease.ReadOnly
	}
	return verdicts[n]
}

// errOption is the error of a statement that an option of the server forbids.
const errOption = 1290

// advices are what to do about an error, where the verdict does not say it.
var advices = map[int]string{
	1040: "the server has no connection left: raise max_connections, or limit the pools of its clients",
	1044: "the user has no right on this database, or there is none of that name",
	1045: "the user or its password is wrong, or the user may not come from this host",
	1046: "name the database in the data source name, or in WithTable",
	1049: "there is no such database: create it, or correct its name in the data source name",
	1054: "the table is not one that Schema makes: drop it while no process uses it, and run Migrate",
	1203: "the user has no connection left: raise its max_user_connections, or limit the pools of its clients",
	1205: locked,
	1698: "the user may not log in by a password: correct the user, or how the server knows it",
	1969: locked,
	1792: "the transactions of this session are read-only: remove that setting from the data source name",
}

const locked = "another transaction keeps rows of the table locked: find it, and read the table without locks"

// advise says what to do about an error of the server.
func advise(err error) string {
	n := numberOf(err)
	if n == errCommand && strings.Contains(err.Error(), "CREATE command") {
		return "the user may not make the table: GRANT CREATE, or let an administrator run the statement of Schema"
	}
	return advices[n]
}

// errCommand is the error of a statement that needs another right.
const errCommand = 1142
