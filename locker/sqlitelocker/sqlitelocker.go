package sqlitelocker

import (
	"context"
	"database/sql"
	"iter"
	"time"

	"github.com/go-lockguard/guard/internal/sqllease"
	"github.com/go-lockguard/guard/locker"
)

// Locker is a [locker.Locker] on SQLite. It serves one guard. All methods but
// Open are safe for concurrent use.
type Locker struct{ store *sqllease.Locker }

var (
	_ locker.Locker       = (*Locker)(nil)
	_ locker.Inspector    = (*Locker)(nil)
	_ locker.Limiter      = (*Locker)(nil)
	_ locker.FindingNamer = (*Locker)(nil)
)

// Option changes a setting of a [Locker]. guard.New reports a wrong one as
// ErrInvalidOption.
type Option func(*settings)

type settings struct{ table string }

// WithTable sets the name of the table, perhaps with the name of an attached
// database and a dot in front. Processes exclude each other if they have the
// same table. The default is "guard_lease".
func WithTable(name string) Option { return func(s *settings) { s.table = name } }

// New returns a Locker that keeps leases in db. It sends nothing. The caller
// closes db, after the Locker.
func New(db *sql.DB, opts ...Option) *Locker {
	s := settings{table: "guard_lease"}
	for _, o := range opts {
		o(&s)
	}
	return &Locker{sqllease.New(&dialect, db, s.table)}
}

// Schema returns the statement that makes the table, for a migration tool.
func (l *Locker) Schema() string { return l.store.Schema() }

// Migrate makes the table, unless it is there. It may be called before
// guard.New and by several processes at once. It blocks on the database until
// ctx ends.
func (l *Locker) Migrate(ctx context.Context) error { return l.store.Migrate(ctx) }

// Open keeps w and starts the goroutines of l. It returns an ErrInvalidOption
// if a setting is wrong, or if the locker was opened before.
func (l *Locker) Open(w locker.Waker) error { return l.store.Open(w) }

// Acquire implements [locker.Locker]. It reads the row of the key, and writes
// it if something changes.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	return l.store.Acquire(ctx, c, t)
}

// Renew implements [locker.Locker]. It takes two statements for each 500
// claims.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	l.store.Renew(ctx, cs, answered)
}

// Fence implements [locker.Locker]. Tokens are at least the time in
// microseconds.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (token uint64, err error) {
	return l.store.Fence(ctx, c)
}

// Release implements [locker.Locker]. It hands the key over in one write.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	return l.store.Release(ctx, c, next)
}

// Abandon implements [locker.Locker]. It works in the background, until Close
// at the latest.
func (l *Locker) Abandon(c *locker.Claim, late bool) { l.store.Abandon(c, late) }

// Inspect implements [locker.Inspector] by one read.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	return l.store.Inspect(ctx, key)
}

// List implements [locker.Inspector]. It reads 200 rows at a time, in the order
// of the keys.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return l.store.List(ctx)
}

// ForceRelease implements [locker.Inspector]. The owner learns of it by its
// next renewal.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	return l.store.ForceRelease(ctx, key, owner)
}

// Limits returns the shortest TTL. A lease ends on time, for all processes.
func (*Locker) Limits() locker.Limits { return locker.Limits{MinTTL: 200 * time.Millisecond} }

// Close takes the claims that wait here out of their queues, does what Abandon
// has left to do, and ends the goroutines of l. It leaves the database open,
// and keys that are owned to their TTL.
//
// Close blocks until that is done or ctx ends. Then it returns ctx's error, and
// goes on in the background for half a minute at most.
func (l *Locker) Close(ctx context.Context) error { return l.store.Close(ctx) }
