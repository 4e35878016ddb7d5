package redlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redlock"
)

func Example() {
	var nodes []redis.UniversalClient // of three machines that share nothing
	for range 3 {
		server, err := miniredis.Run()
		if err != nil {
			log.Print(err)
			return
		}
		defer server.Close()
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer func() { _ = rdb.Close() }()
		nodes = append(nodes, rdb)
	}

	// WithRestartDelay(0) is for this example only, whose nodes never restart.
	g, err := guard.New(redlock.New(nodes, redlock.WithRestartDelay(0)), guard.WithName("stock"), guard.WithFencing())
	if err != nil {
		log.Print(err)
		return
	}
	ctx := context.Background()
	defer func() { _ = g.Close(ctx) }()

	err = g.Do(ctx, guard.Key("stock", "42"), func(ctx context.Context) error {
		token, err := guard.FencingToken(ctx)
		if err != nil {
			return err
		}
		fmt.Println("the resource may reject a lower token:", token > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// the resource may reject a lower token: true
	// <nil>
}
