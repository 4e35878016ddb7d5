package postgreslocker

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Hears reports whether messages come.
func (l *Locker) Hears() bool { return l.rows.ears.hears.Load() }

// ListenAt is the configuration of the connection that listens, or nil.
func (l *Locker) ListenAt() *pgxpool.Config { return l.rows.ears.at }

// Write returns the statement that writes so many rows over those of a version.
func (l *Locker) Write(rows int, old int64, firm bool) (sql string, args []any) {
	c := &rowlocker.Change{Loose: !firm}
	for n := range rows {
		c.Rows = append(c.Rows, rowlocker.Row{
			Key: "k" + strconv.Itoa(n), Version: old, Value: []byte("o/{}"), KeepFor: time.Second,
		})
	}
	return l.Statement(c)
}

// Statement returns what carries out a change.
func (l *Locker) Statement(c *rowlocker.Change) (sql string, args []any) {
	return l.rows.statement(c, false, !c.Loose)
}

// Translate returns the error of a request.
var Translate = translate

// Sweep deletes the rows that mean nothing any more.
func (l *Locker) Sweep(ctx context.Context) { l.rows.sweep(ctx, l.rows.sql.sweep) }

// Swap sends changes.
func (l *Locker) Swap(ctx context.Context, changes ...*rowlocker.Change) error {
	return l.rows.Swap(ctx, changes)
}
