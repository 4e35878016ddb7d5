package main

import (
	"context"

	"github.com/go-lockguard/guard"
)

// style is where the guard stands, in the modes that have one. All three hold the same key.
type style string

const (
	styleRoute     style = "route"     // in front of the handler: one line on the route
	styleWrap      style = "wrap"      // around the business step: guard.Wrap
	styleGenerated style = "generated" // around it too: a directive, and what guardgen makes of it
)

var styles = []style{styleRoute, styleWrap, styleGenerated}

//go:generate go tool guardgen

// seller is the business step, as the rest of an app sees it.
type seller interface {
	//guard:lock stock:{sku} name=stock
	deduct(ctx context.Context, sku, order string) (receipt, error)
}

// guarded returns the business step behind a guard, for a route that has none.
func guarded(g *guard.Guard, s seller, how style) func(ctx context.Context, sku, order string) (receipt, error) {
	if how == styleGenerated {
		return guardSeller(g, s).deduct
	}
	type purchase struct{ sku, order string }
	deduct := guard.Wrap(g,
		func(p purchase) string { return guard.Key("stock", p.sku) },
		func(ctx context.Context, p purchase) (receipt, error) { return s.deduct(ctx, p.sku, p.order) })
	return func(ctx context.Context, sku, order string) (receipt, error) {
		return deduct(ctx, purchase{sku, order})
	}
}
