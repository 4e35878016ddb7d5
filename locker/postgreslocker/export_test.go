package postgreslocker

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// InsistFor changes for how long an Abandon insists.
func (l *Locker) InsistFor(d time.Duration) { l.life.Insistence = d }

// Hears reports whether messages come.
func (l *Locker) Hears() bool { return l.book.hears.Load() }

// ListenAt is the configuration of the connection that listens, or nil.
func (l *Locker) ListenAt() *pgxpool.Config { return l.inbox.listenAt }

// RenewSQL is the request that renews.
func (l *Locker) RenewSQL() string { return l.server.sql.renew }

// UseVersion makes l a locker of another release, with functions of its own.
func (l *Locker) UseVersion(table, version string) (err error) {
	l.server.sql, err = statementsFor(table, version)
	return err
}

// Hear passes on a message to the locker.
func (l *Locker) Hear(text string) { l.inbox.heard(text, l.book.channel) }

// Channel is what the locker listens to.
func (l *Locker) Channel() string { return l.book.channel }

// Translate returns the error of a request.
var Translate = translate

// InTime returns the error of a call.
var InTime = inTime

// Version is in the names of the functions.
const Version = version

// ForgetOf is the request of Forget that deletes the record of owner. Without an
// owner it returns the owner of the record.
func (l *Locker) ForgetOf(ctx context.Context, key, owner string) (of string, forgot bool, err error) {
	r, err := l.forgetOf(ctx, key, owner)
	return string(r.record), r.recorded, err
}

// Polls returns the number of claims for which the locker polls.
func (l *Locker) Polls() int {
	_, owners := l.book.watched()
	return len(owners)
}

// Fill puts the names of a table and of the functions of a version into SQL.
func Fill(text, table, version string) (string, error) {
	s, err := statementsFor(table, version)
	if err != nil {
		return "", err
	}
	return s.fill(text), nil
}

// SweepRecords deletes the rows of records that have ended.
func (l *Locker) SweepRecords() { l.server.sweepTable(l.life.Context(), l.server.sql.sweepRecords) }
