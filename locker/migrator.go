package locker

import "context"

// Migrator is a [Locker] that keeps leases in tables which somebody must make,
// as those of the SQL stores do. It is for a Locker of [FromDSN]:
//
//	if m, ok := l.(locker.Migrator); ok {
//		err = m.Migrate(ctx)
//	}
type Migrator interface {
	// Migrate makes the tables, unless they are there. It may be called before
	// guard.New, and by several processes at once. It blocks until the database
	// has answered or ctx ends.
	Migrate(ctx context.Context) error

	// Schema returns the SQL that Migrate runs, for a migration tool.
	Schema() string
}
