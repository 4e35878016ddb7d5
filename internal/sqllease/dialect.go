package sqllease

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// Dialect is what differs between databases. Its functions are safe for
// concurrent use.
type Dialect struct {
	Name string // of the package, for errors

	// Create makes the table %s. Running it again does nothing.
	Create string

	// Now is an expression: µs since 1970 by the server's clock, whatever time
	// zone it is in. Grain is the resolution of that clock.
	Now   string
	Grain time.Duration

	// Upsert stands behind the VALUES of an INSERT. It replaces a row whose
	// version is one less than the new one. For any other row it makes the
	// whole statement fail, with an error that Judge calls Again. It leaves the
	// column kept as it is if the new one is NULL.
	Upsert string

	// Judge sorts an error of the driver.
	Judge func(error) Verdict

	// Check returns the findings of this database, nil ones among them. It is
	// called after a write has succeeded.
	Check func(ctx context.Context, db *sql.DB) []error

	// Rights says which rights the table %s needs.
	Rights string

	Workers int // requests at a time
}

// Verdict is what an error of the driver means.
type Verdict int

// The verdicts.
const (
	Unavailable Verdict = iota // no clear answer
	Again                      // nothing was done, and the same request may succeed now
	NoRight                    // a missing right
	NoTable                    // a missing table, column or database
	Other                      // trying again cannot help
)

// marks returns n times mark with commas between them.
func marks(mark string, n int) string {
	return strings.TrimSuffix(strings.Repeat(mark+",", n), ",")
}
