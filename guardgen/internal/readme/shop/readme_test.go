package shop_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardgen/internal/readme/shop"
	"github.com/go-lockguard/guard/guardtest"
)

type Request struct {
	SKU string
	N   int
}

func TestTheReadmeRuns(t *testing.T) {
	g, ctx := guardtest.New(t).Guard, t.Context()
	deducted := func(db *sql.DB) (int, error) {
		inventory := shop.GuardInventory(g, shop.NewInventory(db)) // once, at start-up
		left, err := inventory.Deduct(ctx, "4711", 1)              // holds guard.Key("stock", "4711")
		return left, err
	}
	left, err := deducted(nil)
	if left != 9 || err != nil {
		t.Error(left, err)
	}
	deduct := guard.Wrap(g,
		func(r Request) string { return guard.Key("stock", r.SKU) },
		func(ctx context.Context, r Request) (int, error) { return shop.Deduct(ctx, r.SKU, r.N) })
	if left, err := deduct(ctx, Request{"4711", 2}); left != 8 || err != nil {
		t.Error(left, err)
	}
}
