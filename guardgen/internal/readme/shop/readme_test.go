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

type database struct{}

func (database) InTx(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

func TestTheReadmeRuns(t *testing.T) {
	g, ctx := guardtest.New(t).Guard, t.Context()
	deducted := func(db *sql.DB) (shop.Inventory, int, error) {
		inventory := shop.GuardInventory(g, shop.NewInventory(db)) // once, at start-up
		left, err := inventory.Deduct(ctx, "4711", 1)              // holds guard.Key("stock", "4711")
		return inventory, left, err
	}
	inventory, left, err := deducted(nil)
	if left != 9 || err != nil {
		t.Error(left, err)
	}
	deduct := guard.Wrap(g,
		func(r Request) string { return guard.Key("stock", r.SKU) },
		func(ctx context.Context, r Request) (int, error) { return shop.Deduct(ctx, r.SKU, r.N) })
	if left, err := deduct(ctx, Request{"4711", 2}); left != 8 || err != nil {
		t.Error(left, err)
	}
	db, sku := database{}, "4711"
	late := func() error {
		err := db.InTx(ctx, func(ctx context.Context) error { // wrong: commits after Deduct has released
			_, err := inventory.Deduct(ctx, sku, 1)
			return err
		})
		return err
	}
	if err := late(); err != nil {
		t.Error(err)
	}
}
