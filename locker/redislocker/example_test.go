package redislocker_test

import (
	"context"
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The locker connects by the options of the service's client. It is closed with
// the guard, and the service closes its client.
func ExampleNew() {
	server, err := miniredis.Run() // stands for your Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()

	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)

	err = g.Do(ctx, guard.Key("stock", "4711"), func(ctx context.Context) error {
		fmt.Println(rdb.Keys(ctx, "*").Val())
		return nil
	})
	fmt.Println(err)
	// Output:
	// [guard:{stock:4711}]
	// <nil>
}

// Name all sentinels, three or more. The client given to New is not used then.
func ExampleWithSentinel() {
	sentinels, end := startSentinels()
	defer end()

	g, err := guard.New(redislocker.New(nil, redislocker.WithSentinel(&redis.FailoverOptions{
		MasterName:    "mymaster",
		SentinelAddrs: sentinels,
	})))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)

	err = g.Do(ctx, guard.Key("stock", "4711"), func(context.Context) error {
		fmt.Println("one at a time, also over a failover")
		return nil
	})
	fmt.Println(err)
	// Output:
	// one at a time, also over a failover
	// <nil>
}

// startSentinels starts a primary, two replicas and three sentinels.
func startSentinels() (addrs []string, end func()) {
	dir, err := os.MkdirTemp("", "sentinels")
	if err != nil {
		panic(err)
	}
	lab := &redisproc.Lab{Dir: dir}
	s, err := lab.StartSentinel()
	if err != nil {
		panic(err)
	}
	return s.Addrs(), func() {
		lab.Close()
		_ = os.RemoveAll(dir)
	}
}
