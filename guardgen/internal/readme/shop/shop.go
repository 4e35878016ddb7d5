// Package shop has the code of guardgen's README, so that it is compiled.
package shop

import (
	"context"
	"database/sql"
)

// Order is something to be paid.
type Order struct{ ID int }

// Inventory is what the README begins with.
//
//go:generate go tool guardgen
type Inventory interface {
	//guard:lock stock:{sku} wait=200ms
	Deduct(ctx context.Context, sku string, n int) (left int, err error)
	//guard:lock order:{o.ID} ttl=30s wait=0s fencing
	Pay(ctx context.Context, o *Order) error
	Left(ctx context.Context, sku string) (int, error) // no directive: passes through
}

// Stock is the same in small.
type Stock interface {
	//guard:lock stock:{sku} wait=200ms
	Deduct(ctx context.Context,
		sku string, n int) (int, error)
}

// Deduct is the step as a function.
//
//guard:lock stock:{sku} wait=200ms
func Deduct(ctx context.Context, sku string, n int) (left int, err error) {
	return (&store{}).Deduct(ctx, sku, n)
}

// store is an Inventory without a database.
type store struct{ sold int }

// NewInventory needs no database here.
func NewInventory(*sql.DB) Inventory { return &store{} }

func (s *store) Deduct(_ context.Context, _ string, n int) (int, error) {
	s.sold += n
	return 10 - s.sold, nil
}

func (s *store) Pay(context.Context, *Order) error { return nil }

func (s *store) Left(context.Context, string) (int, error) { return 10 - s.sold, nil }

func (s *store) Restock(ctx context.Context, sku string) error {
	_, err := s.Deduct(ctx, sku, -100) // s is not guarded: no lock here
	return err
}
