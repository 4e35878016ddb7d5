// Package sqllease keeps the rows of package rowlocker in one table of a SQL
// database, which mysqllocker and sqlitelocker share. A [Dialect] has what
// differs.
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

	// Values are what an INSERT inserts, where %s stands for Row once for each
	// row. The parameters of Row are key, version, µs for which the row means
	// something, and value.
	Values, Row string

	// Upsert stands behind the Values of an INSERT. Upsert replaces a row whose
	// version is one less than the new one. For any other row it makes the
	// whole statement fail, with an error that Judge calls Again.
	Upsert string

	// Bound returns what stands in front of a statement that writes. The server
	// then ends the statement after limit, for example one that waits for a
	// lock: a server does not notice that the caller has given up. nil bounds
	// nothing.
	Bound func(limit time.Duration) string

	// ReadOnly is an expression: whether the server takes no writes. What such
	// a server says of a row is old.
	ReadOnly string

	// Judge sorts an error of the driver.
	Judge func(error) Verdict

	// Advice says what to do about an error of the driver. "" says that the
	// verdict is enough.
	Advice func(error) string

	// Check returns the findings of this database, nil ones among them. Check
	// is called after a write has succeeded, and an acquire took that long.
	Check func(ctx context.Context, db *sql.DB, took time.Duration) []error

	Findings []string // the names that findings can have

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
	ReadOnly                   // the server takes no writes: another one may
	Other                      // trying again cannot help
)

// commas returns n times text with commas between them.
func commas(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+",", n), ",")
}
