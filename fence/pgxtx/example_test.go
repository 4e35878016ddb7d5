package pgxtx_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/pgxtx"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// The order is paid exactly once, also after a crash or a lost lease.
func ExampleOnce() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	results, err := pgxtx.NewResults("results") // run results.Schema() once
	if err != nil {
		panic(err)
	}
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(ctx)

	receipt, err := pgxtx.Once(ctx, g, pool, results, guard.Key("pay", "order-7"), 24*time.Hour,
		func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, "UPDATE orders SET paid = true WHERE name = 'order-7'")
			return "receipt of order-7", err
		})
	fmt.Println(receipt, err)
}
