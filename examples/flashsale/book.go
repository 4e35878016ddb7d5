package main

import (
	"context"
	"errors"
)

// orderBook is where the stock and the orders of a run are: in Redis, or in an SQL database. The instances read and write it, the
// parent makes it, looks at it and removes it. Safe for concurrent use.
type orderBook interface {
	// read returns the stock. A token above 0 is shown to the fence, as in place: what was read with it can be overwritten
	// by nobody with a lower one.
	read(ctx context.Context, sku string, token uint64) (left int, err error)

	// place writes an order and the stock that is left, together. With a token above 0 the error Is fence.ErrLateWrite if a
	// higher one was seen, and nothing is written.
	place(ctx context.Context, sku, order string, left int, token uint64) error

	// take is the whole sale of one item in one step, or errSoldOut.
	take(ctx context.Context, sku, order string) (left int, err error)

	// create makes the book, with so many items on the shelf.
	create(ctx context.Context, stock int) error

	// glance returns what is left and how many orders there are, at one moment.
	glance(ctx context.Context) (left, orders int, err error)

	// orders returns the ids of all orders.
	orders(ctx context.Context) ([]string, error)

	// remove removes it.
	remove(ctx context.Context) error

	close() error
}

// sku is the one item of the sale.
const sku = "lamp"

// errSoldOut says that there is nothing left to sell.
var errSoldOut = errors.New("shop: sold out")

// errUnconfirmed says that a write was done, but no replica has it yet: a failover may lose it.
var errUnconfirmed = errors.New("shop: no replica has confirmed the order")
