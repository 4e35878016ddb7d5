package shop

import (
	"context"
	"errors"
)

// OrderBook is where the stock and the orders of a run are. Safe for concurrent
// use.
type OrderBook interface {
	// Read returns the stock. A token above 0 is shown to the fence, as in
	// Place: what was read with it can be overwritten by nobody with a lower
	// one.
	Read(ctx context.Context, sku string, token uint64) (left int, err error)

	// Place writes an order and the stock that is left, together. With a token
	// above 0 the error Is fence.ErrLateWrite if a higher one was seen, and
	// nothing is written.
	Place(ctx context.Context, sku, order string, left int, token uint64) error

	// Take is the whole sale of one item in one step, or ErrSoldOut.
	Take(ctx context.Context, sku, order string) (left int, err error)

	// Orders returns the ids of all orders.
	Orders(ctx context.Context) ([]string, error)
}

// SKU is the one item of the sale.
const SKU = "lamp"

// ErrSoldOut says that there is nothing left to sell.
var ErrSoldOut = errors.New("shop: sold out")

// errUnconfirmed says that a write was done, but no replica has it yet: a
// failover may lose it.
var errUnconfirmed = errors.New("shop: no replica has confirmed the order")
