package sqlitelocker

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/sqllease"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Names of the findings of [Locker.Check], see guard.WithAcceptedFindings.
const (
	FindingJournal   = "journal"                  // the database is not in WAL mode
	FindingMemory    = "memory"                   // the database is in the memory of this process
	FindingRights    = sqllease.FindingRights     // the file may not be written
	FindingRoundTrip = rowlocker.FindingRoundTrip // a write takes too long for the TTL
	FindingSchema    = sqllease.FindingSchema     // the table is missing
)

// Check takes and releases a key that nobody uses, and measures that. Check
// also looks where the database is and whether it is in WAL mode. The error
// holds everything that is wrong, each as a [locker.Finding] with one of the
// names above.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error { return l.base.Check(ctx, ttl) }

// check returns the findings about the settings of the database.
func check(ctx context.Context, db *sql.DB, _ time.Duration) []error {
	var file, mode string
	const place = "SELECT coalesce(file, '') FROM pragma_database_list WHERE name = 'main'"
	err := db.QueryRowContext(ctx, place).Scan(&file)
	if err == nil {
		err = db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	}
	return judge(file, mode, err)
}

func judge(file, mode string, err error) []error {
	switch {
	case err != nil:
		return []error{lockerkit.Finding(store, FindingJournal, locker.Warn, "the settings could not be read: %v", err)}
	case file == "":
		return []error{lockerkit.Finding(store, FindingMemory, locker.Refuse,
			"the database is in memory: other processes are not excluded, open a file")}
	case mode != "wal":
		return []error{lockerkit.Finding(store, FindingJournal, locker.Warn,
			"journal_mode is %s: set it to wal, or each write keeps all readers waiting", mode)}
	}
	return nil
}
