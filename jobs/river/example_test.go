package riverlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/riverqueue/river"

	"github.com/go-lockguard/guard"
	riverlock "github.com/go-lockguard/guard/jobs/river"
	"github.com/go-lockguard/guard/locker/memlocker"
)

type PayArgs struct {
	Order int `json:"order"`
}

func (PayArgs) Kind() string { return "pay" }

type PayWorker struct{ river.WorkerDefaults[PayArgs] }

func (PayWorker) Work(_ context.Context, job *river.Job[PayArgs]) error {
	fmt.Println("paid", job.Args.Order)
	return nil
}

func Example() {
	g, err := guard.New(memlocker.New(), guard.WithName("orders")) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	orders := func(job *river.Job[PayArgs]) string { return guard.Key("order", job.Args.Order) }
	worker := riverlock.Key(g, orders, &PayWorker{})
	river.AddWorker(river.NewWorkers(), worker)

	job := jobOf(7)
	_ = g.Do(context.Background(), "order:7", func(context.Context) error { // another holder
		err := worker.Work(context.Background(), job)
		fmt.Println("snoozed:", errors.Is(err, river.JobSnooze(0)))
		return nil
	})
	fmt.Println(worker.Work(context.Background(), job))
	// Output:
	// snoozed: true
	// paid 7
	// <nil>
}
