package redisfence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/redisfence"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// sell reads and writes, with the token both times.
func sell(ctx context.Context, rdb redis.Scripter, sku string) (left int, err error) {
	token, err := guard.FencingToken(ctx)
	if err != nil {
		return 0, err
	}
	key := "stock:" + sku
	at := redisfence.For(key)
	stock, err := redisfence.Get(ctx, rdb, at, token, key)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(stock, &left); err != nil || left == 0 {
		return 0, errors.Join(err, errors.New("sold out"))
	}
	left-- // and much more that no script can do
	return left, redisfence.Set(ctx, rdb, at, token, key, left, 0)
}

func Example() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	ctx := context.Background()
	rdb.Set(ctx, "stock:lamp", 500, 0)

	g, err := guard.New(redislocker.New(rdb), guard.WithFencing())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close(ctx)

	left, err := guard.Call(ctx, g, guard.Key("stock", "lamp"), func(ctx context.Context) (int, error) {
		return sell(ctx, rdb, "lamp")
	})
	fmt.Println(left, err)

	// Somebody who has slept since long before that.
	err = redisfence.Set(ctx, rdb, redisfence.For("stock:lamp"), 1, "stock:lamp", 500, 0)
	fmt.Println(errors.Is(err, fence.ErrLateWrite))
	// Output:
	// 499 <nil>
	// true
}
