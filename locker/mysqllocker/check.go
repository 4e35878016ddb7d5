package mysqllocker

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/sqllease"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Names of the findings of [Locker.Check], see guard.WithAcceptedFindings.
const (
	FindingAutocommit = "autocommit"               // statements do not take effect by themselves
	FindingDurability = "durability"               // a crash of the server forgets leases
	FindingLockWait   = "lock-wait"                // requests that gave up wait on in the server
	FindingPrepare    = "prepare"                  // each statement takes two round trips to a far server
	FindingReadOnly   = sqllease.FindingReadOnly   // the server takes no writes
	FindingRights     = sqllease.FindingRights     // the user may not log in, or not read or write the table
	FindingRoundTrip  = rowlocker.FindingRoundTrip // a write takes too long for the TTL
	FindingSchema     = sqllease.FindingSchema     // the table is missing
)

// Check takes and releases a key that nobody uses, and measures that. Check
// also looks at the settings of the session and of the server. The error holds
// everything that is wrong, each as a [locker.Finding] with one of the names
// above.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error { return l.base.Check(ctx, ttl) }

// condition is the state of the server and of a session.
type condition struct {
	flush, autocommit int
	lockWait          int // seconds
	version           string
	prepares          bool // the driver prepares each statement
}

// lockWaitMost is how long a request that gave up may wait in the server, in
// seconds.
const lockWaitMost = 5

// check returns the findings about the settings of the server.
func check(ctx context.Context, db *sql.DB, took time.Duration) []error {
	s, err := read(ctx, db, took > lockerkit.Near)
	if err != nil {
		return []error{lockerkit.Finding(store, FindingDurability, locker.Warn,
			"the settings could not be read: %v", err)}
	}
	return s.judge(took)
}

// read reads the settings. far says that prepares matters.
func read(ctx context.Context, db *sql.DB, far bool) (s condition, err error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return s, err
	}
	defer c.Close()
	before := 0
	if far {
		before, err = prepared(ctx, c)
	}
	if err == nil {
		err = c.QueryRowContext(ctx, "SELECT @@innodb_flush_log_at_trx_commit, @@autocommit, "+
			"@@innodb_lock_wait_timeout, @@version FROM (SELECT ? AS a) AS t", "with an argument").
			Scan(&s.flush, &s.autocommit, &s.lockWait, &s.version)
	}
	if far && err == nil {
		after, err := prepared(ctx, c)
		s.prepares = after > before
		return s, err
	}
	return s, err
}

// prepared returns how many statements a session has prepared.
func prepared(ctx context.Context, c *sql.Conn) (n int, err error) {
	var name string
	err = c.QueryRowContext(ctx, "SHOW SESSION STATUS LIKE 'Com_stmt_prepare'").Scan(&name, &n)
	return n, err
}

func (s *condition) judge(took time.Duration) (found []error) {
	add := func(name string, severity locker.Severity, format string, args ...any) {
		found = append(found, lockerkit.Finding(store, name, severity, format, args...))
	}
	if s.autocommit == 0 {
		add(FindingAutocommit, locker.Refuse,
			"autocommit is off, so that nothing is ever written: remove it from the data source name")
	}
	if s.flush != 1 {
		add(FindingDurability, locker.Warn, "innodb_flush_log_at_trx_commit is %d: a crash of the server forgets "+
			"leases of up to a second, set it to 1", s.flush)
	}
	if s.lockWait > lockWaitMost && !strings.Contains(s.version, "MariaDB") {
		add(FindingLockWait, locker.Warn, "innodb_lock_wait_timeout is %d s in these sessions: while another "+
			"transaction locks rows of the table, requests that gave up wait on in the server and fill its "+
			"connections. Give the guard a *sql.DB of its own, with innodb_lock_wait_timeout=1 in the data source name",
			s.lockWait)
	}
	if s.prepares {
		add(FindingPrepare, locker.Warn, "an acquire took %v, and the driver prepares each statement, which "+
			"doubles the round trips: set interpolateParams=true in the data source name", took.Round(time.Millisecond))
	}
	return found
}
