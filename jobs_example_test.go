package guard_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// Every instance starts the job at the same minute, on clocks that differ a
// little. The job runs on one of them.
func ExampleGuard_TryDo() {
	store := memlocker.New() // redislocker.New(rdb) in production
	once := guard.WithMinHold(10 * time.Second)
	for _, instance := range []guard.Locker{store, store.Peer()} {
		g, err := guard.New(instance, once)
		if err != nil {
			panic(err)
		}
		defer g.Close(context.Background())
		ran, err := g.TryDo(context.Background(), guard.Key("job", "report"), func(context.Context) error {
			fmt.Println("the report is written")
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// the report is written
	// true <nil>
	// false <nil>
}

// A leader works until its function returns, it is no longer the leader, or the
// service ends.
func ExampleGuard_Lead() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	ctx, shutdown := context.WithCancel(context.Background())
	err = g.Lead(ctx, guard.Key("outbox"), func(ctx context.Context) error {
		fmt.Println("elected")
		shutdown()
		<-ctx.Done() // also if another may lead soon
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// Output:
	// elected
	// context canceled
}
