// Jobs on a schedule, with gocron v2 on every instance: a nightly report by
// whichever instance comes first (Locker), or all of them on one elected
// instance (-elect, Elector). Start it twice, and kill one.
//
//	REDIS=localhost:6379 go run ./examples/gocron
//	REDIS=localhost:6379 go run ./examples/gocron -elect
//
// gocron does not hand the lease's context to the job. A job that must stop
// when the lease is lost calls g.TryDo itself, with the guard of newLocker and
// without a Locker, and works under the context that it gets there: see report.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func main() {
	elect := flag.Bool("elect", false, "run all jobs on one elected instance")
	flag.Parse()
	addr := os.Getenv("REDIS")
	if addr == "" {
		addr = "localhost:6379"
	}
	g, err := guard.New(redislocker.New(redis.NewClient(&redis.Options{Addr: addr})), guard.WithName("jobs"))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	distributed := gocron.WithDistributedLocker(newLocker(g, 500*time.Millisecond))
	if *elect {
		e := new(elector)
		distributed = gocron.WithDistributedElector(e)
		go func() { log.Println("the election is over:", e.lead(ctx, g)) }()
	}
	// whole seconds, so that all instances mean the same ticks
	start := time.Now().Truncate(time.Second).Add(time.Second)
	s, err := schedule(distributed, start, time.Second, func() { log.Println("tick") })
	if err != nil {
		log.Fatal(err)
	}
	nightly := g.With(guard.WithMinHold(time.Minute), guard.WithMaxHold(time.Hour))
	_, err = s.NewJob(gocron.DailyJob(1, gocron.NewAtTimes(gocron.NewAtTime(3, 0, 0))),
		gocron.NewTask(func(ctx context.Context) { report(ctx, nightly) }),
		gocron.WithDisabledDistributedJobLocker(true))
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	<-ctx.Done()
	_ = s.Shutdown() // jobs first, which may hold keys
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = g.Close(closing)
}

// schedule is one instance with one job.
func schedule(distributed gocron.SchedulerOption, start time.Time, every time.Duration,
	job func(),
) (gocron.Scheduler, error) {
	s, err := gocron.NewScheduler(distributed)
	if err != nil {
		return nil, err
	}
	_, err = s.NewJob(gocron.DurationJob(every), gocron.NewTask(job), gocron.WithName("tick"),
		gocron.WithStartAt(gocron.WithStartDateTime(start)))
	return s, err
}

// report is a job of minutes that stops when it is no longer alone.
func report(ctx context.Context, g *guard.Guard) {
	ran, err := g.TryDo(ctx, guard.Key("job", "report"), func(ctx context.Context) error {
		return ctx.Err() // the report goes here
	})
	log.Println("report: done here:", ran, err)
}
