package gocronlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-lockguard/guard"
	gocronlock "github.com/go-lockguard/guard/jobs/gocron"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// Two instances have the same schedule. One of them runs the report.
func Example() {
	done := make(chan struct{})
	report := func() {
		fmt.Println("the report of all instances")
		close(done)
	}
	store := memlocker.New() // redislocker.New(rdb) in production
	for _, l := range []guard.Locker{store, store.Peer()} {
		g, err := guard.New(l, guard.WithName("jobs"))
		if err != nil {
			panic(err)
		}
		defer g.Close(context.Background())

		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.NewLocker(g)))
		if err != nil {
			panic(err)
		}
		defer func() { _ = s.Shutdown() }() // before the guard, because jobs hold keys
		nightly := gocron.CronJob("0 3 * * *", false)
		job, err := s.NewJob(nightly, gocron.NewTask(report), gocron.WithName("report"))
		if err != nil {
			panic(err)
		}
		s.Start()
		if err := job.RunNow(); err != nil { // as at 3:00
			panic(err)
		}
		<-done
	}
	// Output: the report of all instances
}

// One instance runs all jobs, as long as it lives.
func ExampleElector() {
	g, err := guard.New(memlocker.New(), guard.WithName("jobs")) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())
	elector := gocronlock.NewElector(g, "scheduler")
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { // ends with ctx
		defer close(over)
		log.Print("the election is over: ", elector.Lead(ctx))
	}()
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		panic(err)
	}
	s.Start()

	_ = s.Shutdown()
	stop()
	<-over
	fmt.Println(elector.IsLeader(context.Background()))
	// Output: gocronlock: another instance leads, or none
}

// A job that must stop when its lease is lost takes its key itself.
func ExampleLocker() {
	g, err := guard.New(memlocker.New(), guard.WithName("jobs")) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.NewLocker(g)))
	if err != nil {
		panic(err)
	}
	defer func() { _ = s.Shutdown() }()

	nightly := g.With(guard.WithMinHold(time.Minute), guard.WithMaxHold(time.Hour))
	report := func(ctx context.Context) error {
		_, err := nightly.TryDo(ctx, guard.Key("job", "report"), func(ctx context.Context) error {
			fmt.Println("the report of all instances")
			return ctx.Err() // ends with the lease, and with the scheduler
		})
		return err
	}
	_, err = s.NewJob(gocron.DailyJob(1, gocron.NewAtTimes(gocron.NewAtTime(3, 0, 0))), gocron.NewTask(report),
		gocron.WithDisabledDistributedJobLocker(true))
	if err != nil {
		panic(err)
	}
	fmt.Println(report(context.Background()))
	// Output:
	// the report of all instances
	// <nil>
}
