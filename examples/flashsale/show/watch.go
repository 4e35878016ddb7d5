package show

import (
	"context"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// watchedBook notes what a request reads and writes, for pages that follow it.
type watchedBook struct{ shop.OrderBook }

func (b watchedBook) Read(ctx context.Context, sku string, token uint64) (left int, err error) {
	left, err = b.OrderBook.Read(ctx, sku, token)
	noteVisit(ctx, func(v *visit) {
		v.Token = token
		if err == nil {
			v.Read = left
		}
	})
	return left, err
}

func (b watchedBook) Place(ctx context.Context, sku, order string, left int, token uint64) error {
	err := b.OrderBook.Place(ctx, sku, order, left, token)
	noteVisit(ctx, func(v *visit) { v.Wrote = now() })
	return err
}
