package cronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/go-lockguard/guard"
	cronlock "github.com/go-lockguard/guard/jobs/cron"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func Example() {
	g, err := guard.New(memlocker.New(), guard.WithName("jobs")) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	report := func(ctx context.Context) error { // stops when ctx ends
		fmt.Println("the report of all instances")
		return ctx.Err()
	}

	c := cron.New()
	nightly := g.With(guard.WithMaxHold(time.Hour), guard.WithMinHold(time.Minute))
	job := cron.NewChain(cronlock.Key(nightly, "job:report")).Then(cronlock.Func(report))
	if _, err := c.AddJob("0 3 * * *", job); err != nil {
		panic(err)
	}
	c.Start()

	job.Run() // as on another instance, which gets the tick
	job.Run() // this instance skips it

	<-c.Stop().Done() // first the jobs, because they may hold keys
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = g.Close(ctx)
	// Output: the report of all instances
}

func ExampleAddTick() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	billed := make(chan bool, 10)
	bill := func(ctx context.Context) error {
		_, ok := cronlock.TickOf(ctx) // the moment to bill for, however late this runs
		billed <- ok
		return ctx.Err()
	}

	instance := func() *cron.Cron {
		c := cron.New()
		if _, err := cronlock.AddTick(c, "@every 1s", g, "bill", bill, cronlock.WithCatchUp(3)); err != nil {
			panic(err)
		}
		c.Start()
		return c
	}
	one, other := instance(), instance()
	fmt.Println(<-billed) // by one of them
	<-one.Stop().Done()
	<-other.Stop().Done()
	_ = g.Close(context.Background())
	// Output: true
}
