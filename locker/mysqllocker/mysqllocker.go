package mysqllocker

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/go-lockguard/guard/internal/sqllease"
)

// Locker is a [locker.Locker] on MySQL or MariaDB, for one guard. All methods
// but Open are safe for concurrent use.
type Locker struct{ *base }

// base has the methods of package locker, which guard calls.
type base = sqllease.Locker

// Option changes a setting of a [Locker]. guard.New reports a wrong one as
// ErrInvalidOption.
type Option func(*settings)

type settings struct{ table string }

// WithTable sets the name of the table, perhaps with the name of its database
// and a dot in front. Processes exclude each other if they have the same table.
// The default is "guard_lease".
func WithTable(name string) Option { return func(s *settings) { s.table = name } }

// New returns a Locker that keeps leases in db, and sends nothing. The caller
// closes db, after the Locker.
func New(db *sql.DB, opts ...Option) *Locker { return newLocker(db, nil, opts) }

// FromConnector returns a Locker that owns its database: guard.New opens it by
// c, and Close of the guard closes it. FromConnector sends nothing.
func FromConnector(c driver.Connector, opts ...Option) *Locker { return newLocker(nil, c, opts) }

func newLocker(db *sql.DB, c driver.Connector, opts []Option) *Locker {
	s := settings{table: "guard_lease"}
	for _, o := range opts {
		o(&s)
	}
	return &Locker{sqllease.New(&dialect, db, c, s.table)}
}

// Schema returns the statement that makes the table, for a migration tool.
func (l *Locker) Schema() string { return l.base.Schema() }

// Migrate makes the table, unless it is there. Several processes may call it at
// once, and before guard.New. Migrate blocks on the database until ctx ends.
func (l *Locker) Migrate(ctx context.Context) error { return l.base.Migrate(ctx) }
