// Package imports calls packages by names of its own, or by none.
package imports

import (
	. "context"
	html "html/template"
	tt "text/template"
	clock "time"

	"github.com/go-lockguard/guard/guardgen/testdata/golden/imports/other"
)

// Printer uses two packages with one name, and methods of an interface that has its directives elsewhere.
type Printer interface {
	other.Sealed
	//guard:lock print:{t.Name()} name=print fencing
	Print(ctx Context, t *tt.Template, h html.HTML, opts ...func(at clock.Time) <-chan struct{ A, B []html.HTML }) (
		map[other.Name]*tt.Template, error)
	other.Namer[other.Name]
}

// Named has a constraint of another package.
type Named[N other.Constraint, P interface{ *N }] interface {
	//guard:lock {n.String()} + {d}
	Rename(ctx Context, n N, p P, d clock.Duration) error
}

// Again has the methods of Printer.
type Again Printer
