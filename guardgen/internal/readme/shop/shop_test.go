package shop

import (
	"testing"

	"github.com/go-lockguard/guard/guardtest"
)

func TestStockIsGuarded(t *testing.T) {
	g := guardtest.New(t).Guard
	var stock Stock = &store{}
	stock = GuardStock(g, stock)
	if left, err := stock.Deduct(t.Context(), "4711", 1); left != 9 || err != nil {
		t.Error(left, err)
	}
	if err := new(store).Restock(t.Context(), "4711"); err != nil {
		t.Error(err)
	}
}
