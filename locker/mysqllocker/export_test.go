package mysqllocker

import (
	"time"

	"github.com/go-lockguard/guard/internal/sqllease"
)

// Advice returns the verdict on an error of the server, and what it says to do.
func Advice(err error) (sqllease.Verdict, string) { return judgeError(err), advise(err) }

// JudgeMySQL returns what Check finds on a server of that version.
func JudgeMySQL(version string, lockWait int, prepares bool, took time.Duration) []error {
	c := condition{flush: 1, autocommit: 1, lockWait: lockWait, version: version, prepares: prepares}
	return c.judge(took)
}

// Check returns what Check finds beside an acquire that took so long.
var Check = check

// ReadOnly is the expression that says whether the server takes no writes.
var ReadOnly = dialect.ReadOnly
