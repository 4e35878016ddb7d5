package main

import (
	"context"
	"fmt"

	"github.com/go-lockguard/guard"
)

// receipt is what a buyer gets.
type receipt struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
	Left  int    `json:"left"`
}

// shop is the business of an instance. It keeps nothing in memory: the stock is in the book, the price elsewhere.
type shop struct {
	book   orderBook
	prices *priceClient
	fenced bool // reads and writes carry the fencing token of the lease

	// deaf plays the worst case in the story: a process that is stopped after its last look at its context, and writes
	// when it wakes. Which instruction a process is stopped at is luck, so this shop does not look at all.
	deaf bool
}

// deduct sells one item. It reads, asks another service and writes, which no single script can do: two of them at the
// same time sell the same item, so the route that calls it is guarded.
func (s *shop) deduct(ctx context.Context, sku, order string) (receipt, error) {
	// First of all: the token stands for the lease under which the stock is read.
	token, err := s.token(ctx)
	if err != nil {
		return receipt{}, err
	}
	if s.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	stock, err := s.book.read(ctx, sku, token)
	if err != nil {
		return receipt{}, because(ctx, err)
	}
	noteVisit(ctx, func(v *visit) { v.Read = stock })
	if stock <= 0 {
		return receipt{}, errSoldOut
	}
	cents, err := s.prices.ask(ctx, sku, order)
	if err != nil {
		return receipt{}, because(ctx, err)
	}
	err = s.book.place(ctx, sku, order, stock-1, token)
	noteVisit(ctx, func(v *visit) { v.Wrote = now() })
	if err != nil {
		return receipt{}, because(ctx, err)
	}
	return receipt{Order: order, Cents: cents, Left: stock - 1}, nil
}

// token returns the fencing token of the lease in ctx, 0 for a shop that has none.
func (s *shop) token(ctx context.Context) (uint64, error) {
	if !s.fenced {
		return 0, nil
	}
	token, err := guard.FencingToken(ctx)
	noteVisit(ctx, func(v *visit) { v.Token = token })
	return token, err
}

// deductAtomically sells one item without asking for its price. It needs no lock.
func (s *shop) deductAtomically(ctx context.Context, sku, order string) (receipt, error) {
	left, err := s.book.take(ctx, sku, order)
	if err != nil {
		return receipt{}, err
	}
	return receipt{Order: order, Left: left}, nil
}

// because adds to err why ctx ended, if it did: "context canceled" alone does not tell a lost lease from a buyer who left.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
