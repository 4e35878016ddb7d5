// Package shop is the app that the flash sale runs several instances of. Read
// its files in this order:
//
//   - routes.go: the guard on the route
//   - shop.go: the business step
//   - book.go: the stock and the orders
//   - page.go: the readers of what is sold
//   - price.go: the service that the step asks
//   - style.go: the guard around the step instead
package shop

import (
	"context"
	"fmt"

	"github.com/go-lockguard/guard"
)

// Receipt is what a buyer gets.
type Receipt struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
	Left  int    `json:"left"`
}

// Shop is the business of an instance. It keeps nothing in memory: the stock is
// in the book, the price elsewhere.
type Shop struct {
	Book   OrderBook
	Prices *PriceClient
	Fenced bool // reads and writes carry the fencing token of the lease

	// Deaf plays the worst case in the story: a process that is stopped after
	// its last look at its context, and writes when it wakes. Which instruction
	// a process is stopped at is luck, so this shop does not look at all.
	Deaf bool
}

// Deduct sells one item. It reads, asks another service and writes, which no
// single script can do: two of them at the same time sell the same item, so the
// route that calls it is guarded.
func (s *Shop) Deduct(ctx context.Context, sku, order string) (Receipt, error) {
	// First of all: the token stands for the lease under which the stock is
	// read.
	token, err := s.token(ctx)
	if err != nil {
		return Receipt{}, err
	}
	if s.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	stock, err := s.Book.Read(ctx, sku, token)
	if err != nil {
		return Receipt{}, because(ctx, err)
	}
	if stock <= 0 {
		return Receipt{}, ErrSoldOut
	}
	cents, err := s.Prices.ask(ctx, sku, order)
	if err != nil {
		return Receipt{}, because(ctx, err)
	}
	if err := s.Book.Place(ctx, sku, order, stock-1, token); err != nil {
		return Receipt{}, because(ctx, err)
	}
	return Receipt{Order: order, Cents: cents, Left: stock - 1}, nil
}

// token returns the fencing token of the lease in ctx, 0 for a shop that has
// none.
func (s *Shop) token(ctx context.Context) (uint64, error) {
	if !s.Fenced {
		return 0, nil
	}
	return guard.FencingToken(ctx)
}

// DeductAtomically sells one item without asking for its price. It needs no
// lock.
func (s *Shop) DeductAtomically(ctx context.Context, sku, order string) (Receipt, error) {
	left, err := s.Book.Take(ctx, sku, order)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{Order: order, Left: left}, nil
}

// because adds to err why ctx ended, if it did: "context canceled" alone does
// not tell a lost lease from a buyer who left.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
