package shop

import (
	"context"

	"github.com/go-lockguard/guard"
)

// Style is where the guard stands, in the modes that have one. All three hold
// the same key.
type Style string

// The styles.
const (
	StyleRoute     Style = "route"     // in front of the handler: one line on the route
	StyleWrap      Style = "wrap"      // around the business step: guard.Wrap
	StyleGenerated Style = "generated" // around it too: a directive, and what guardgen makes of it
)

// Styles are all of them.
var Styles = []Style{StyleRoute, StyleWrap, StyleGenerated}

//go:generate go tool guardgen

// seller is the business step, as the rest of an app sees it.
type seller interface {
	//guard:lock stock:{sku} name=stock
	Deduct(ctx context.Context, sku, order string) (Receipt, error)
}

// Guarded returns the business step behind a guard, for a route that has none.
func Guarded(g *guard.Guard, s seller, how Style) func(ctx context.Context, sku, order string) (Receipt, error) {
	if how == StyleGenerated {
		return guardSeller(g, s).Deduct
	}
	type purchase struct{ sku, order string }
	deduct := guard.Wrap(g,
		func(p purchase) string { return guard.Key("stock", p.sku) },
		func(ctx context.Context, p purchase) (Receipt, error) { return s.Deduct(ctx, p.sku, p.order) })
	return func(ctx context.Context, sku, order string) (Receipt, error) {
		return deduct(ctx, purchase{sku, order})
	}
}
