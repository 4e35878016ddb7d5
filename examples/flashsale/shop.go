package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
)

var (
	//go:embed place.lua
	placeSource string
	//go:embed atomic.lua
	atomicSource string

	placeScript  = redis.NewScript(placeSource)
	atomicScript = redis.NewScript(atomicSource)
)

// errSoldOut says that there is nothing left to sell.
var errSoldOut = errors.New("shop: sold out")

// lateWriteError says that the store refused a write whose fencing token was older than one it had seen: the lease had
// ended and others have sold since. Nothing was written.
type lateWriteError struct{ token, newest uint64 }

func (e *lateWriteError) Error() string {
	return fmt.Sprintf("shop: late write refused: token %d < %d", e.token, e.newest)
}

// receipt is what a buyer gets.
type receipt struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
	Left  int    `json:"left"`
}

// shop is the business of an instance. It keeps nothing in memory: the stock is in Redis, the price elsewhere.
type shop struct {
	rdb    *redis.Client
	keys   shopKeys
	prices *priceClient
	fenced bool // writes carry the fencing token of the lease

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
	stock, err := s.rdb.Get(ctx, s.keys.stock(sku)).Int()
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
	err = s.place(ctx, sku, order, stock-1, token)
	noteVisit(ctx, func(v *visit) { v.Wrote = now() })
	if err != nil {
		return receipt{}, because(ctx, err)
	}
	return receipt{Order: order, Cents: cents, Left: stock - 1}, nil
}

// token returns the fencing token of the lease in ctx, as the script takes it.
func (s *shop) token(ctx context.Context) (string, error) {
	if !s.fenced {
		return "", nil
	}
	token, err := guard.FencingToken(ctx)
	noteVisit(ctx, func(v *visit) { v.Token = token })
	return strconv.FormatUint(token, 10), err
}

// place writes order and stock together.
func (s *shop) place(ctx context.Context, sku, order string, left int, token string) error {
	keys := []string{s.keys.stock(sku), s.keys.orders(sku), s.keys.token(sku), s.keys.late(sku)}
	reply, err := placeScript.Run(ctx, s.rdb, keys, left, order, token).Slice()
	if err != nil {
		return err
	}
	if reply[0] != int64(1) {
		late := &lateWriteError{}
		late.token, _ = strconv.ParseUint(token, 10, 64)
		late.newest, _ = strconv.ParseUint(fmt.Sprint(reply[1]), 10, 64)
		return late
	}
	return nil
}

// deductAtomically sells one item without asking for its price. It needs no lock.
func (s *shop) deductAtomically(ctx context.Context, sku, order string) (receipt, error) {
	left, err := atomicScript.Run(ctx, s.rdb, []string{s.keys.stock(sku), s.keys.orders(sku)}, order).Int()
	if err != nil {
		return receipt{}, err
	}
	if left < 0 {
		return receipt{}, errSoldOut
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
