package mysqllocker

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-lockguard/guard/internal/sqllease"
	"github.com/go-lockguard/guard/locker"
)

// Names of the findings of [Locker.Check], see guard.WithAcceptedFindings.
const (
	FindingAutocommit = "autocommit"              // statements do not take effect by themselves
	FindingDurability = "durability"              // a crash of the server forgets leases
	FindingRights     = sqllease.FindingRights    // the user may not read or write the table
	FindingRoundTrip  = sqllease.FindingRoundTrip // a write takes too long for the TTL
	FindingSchema     = sqllease.FindingSchema    // the table is missing
)

// FindingNames implements [locker.FindingNamer].
func (*Locker) FindingNames() []string {
	return []string{FindingAutocommit, FindingDurability, FindingRights, FindingRoundTrip, FindingSchema}
}

// Check takes and releases a key that nobody uses, and measures that. It looks
// at the settings of the session and of the server. The error holds everything
// that is wrong, each as a [locker.Finding] with one of the names above.
//
// A server that is read-only, such as a replica, is an ErrUnavailable.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error { return l.base.Check(ctx, ttl) }

// check returns the findings about the settings of the server.
func check(ctx context.Context, db *sql.DB) []error {
	var flush, autocommit int
	err := db.QueryRowContext(ctx, "SELECT @@innodb_flush_log_at_trx_commit, @@autocommit").Scan(&flush, &autocommit)
	return judge(flush, autocommit, err)
}

func judge(flush, autocommit int, err error) (found []error) {
	if err != nil {
		return []error{sqllease.Finding(store, FindingDurability, locker.Warn,
			"the settings could not be read: %v", err)}
	}
	if autocommit == 0 {
		found = append(found, sqllease.Finding(store, FindingAutocommit, locker.Refuse,
			"autocommit is off, so that nothing is ever written: remove it from the data source name"))
	}
	if flush != 1 {
		found = append(found, sqllease.Finding(store, FindingDurability, locker.Warn,
			"innodb_flush_log_at_trx_commit is %d: a crash of the server forgets leases of up to a "+
				"second, set it to 1", flush))
	}
	return found
}
