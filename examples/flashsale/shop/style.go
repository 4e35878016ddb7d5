package shop

import (
	"context"
	"time"

	"github.com/go-lockguard/guard"
)

// Style is where the guard stands, in the modes that have one. All hold the
// same key.
type Style string

// The styles.
const (
	StyleRoute     Style = "route"     // in front of the handler: one line on the route
	StyleWrap      Style = "wrap"      // around the business step: guard.Wrap
	StyleGenerated Style = "generated" // around it too: a directive, and what guardgen makes of it
	StyleOnce      Style = "once"      // around it, inside guard.Once: one receipt for an order that is sent twice
)

// Styles are all of them.
var Styles = []Style{StyleRoute, StyleWrap, StyleGenerated, StyleOnce}

//go:generate go tool guardgen

// seller is the business step, as the rest of an app sees it.
type seller interface {
	//guard:lock stock:{sku} name=stock
	Deduct(ctx context.Context, sku, order string) (Receipt, error)
}

// Step is the business step.
type Step func(ctx context.Context, sku, order string) (Receipt, error)

// Guarded returns the business step behind a guard, for a route that has none.
func Guarded(g *guard.Guard, s seller, how Style) Step {
	switch how {
	case StyleGenerated:
		return guardSeller(g, s).Deduct
	case StyleOnce:
		return oncePerOrder(g, wrapped(g, s))
	}
	return wrapped(g, s)
}

func wrapped(g *guard.Guard, s seller) Step {
	type purchase struct{ sku, order string }
	deduct := guard.Wrap(g,
		func(p purchase) string { return guard.Key("stock", p.sku) },
		func(ctx context.Context, p purchase) (Receipt, error) { return s.Deduct(ctx, p.sku, p.order) })
	return func(ctx context.Context, sku, order string) (Receipt, error) {
		return deduct(ctx, purchase{sku, order})
	}
}

// receiptsLast is how long an order that is sent again gets its receipt.
const receiptsLast = time.Hour

// oncePerOrder returns step for buyers who click twice, or whose phone sends an
// order again: each of them gets the one receipt of that order.
func oncePerOrder(g *guard.Guard, step Step) Step {
	return func(ctx context.Context, sku, order string) (Receipt, error) {
		return guard.Once(ctx, g, guard.Key("order", sku, order), receiptsLast,
			func(ctx context.Context) (Receipt, error) { return step(ctx, sku, order) })
	}
}
