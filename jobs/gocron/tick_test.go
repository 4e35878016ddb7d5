package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/testguard"
	gocronlock "github.com/go-lockguard/guard/jobs/gocron"
	"github.com/go-lockguard/guard/locker/memlocker"
)

var scheduler = jobtest.Scheduler{TickOf: gocronlock.TickOf, Seconds: true, Start: startTick}

func startTick(j jobtest.Job) (stop func() error, err error) {
	recovers := gocron.WithEventListeners(gocron.AfterJobRunsWithPanic(ignore))
	s, err := gocron.NewScheduler(gocron.WithLocation(j.Location), gocron.WithGlobalJobOptions(recovers))
	if err != nil {
		return nil, err
	}
	var opts []gocronlock.TickOption
	if j.CatchUp != 0 {
		opts = append(opts, gocronlock.WithCatchUp(j.CatchUp))
	}
	if _, err := gocronlock.AddTick(s, j.Spec, j.Guard, j.Name, j.Work, opts...); err != nil {
		if n := len(s.Jobs()); n > 0 {
			return nil, fmt.Errorf("%d jobs are left of a refused one", n)
		}
		return nil, errors.Join(err, s.Shutdown())
	}
	s.Start()
	return s.Shutdown, nil
}

func TestAddTick_TheTable(t *testing.T) { jobtest.RunTicks(t, scheduler) }

// ignore is a listener. The type of its first argument is of a module that this
// one does not require.
func ignore[A, B, C any](A, B, C) {}

func TestAddTick_TheJobsContextEndsWithTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		stop, err := startTick(jobtest.Job{
			Guard: testguard.New(t, memlocker.New()), Name: "report", Spec: "@every 1h", Location: time.UTC,
			Work: func(ctx context.Context) error {
				<-ctx.Done()
				cause = ctx.Err()
				return cause
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if !errors.Is(cause, context.Canceled) {
			t.Errorf("the job ended with %v, want it to be canceled", cause)
		}
	})
}

func TestAddTick_ANightlyReportRunsEachNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := &jobtest.Ticked{TickOf: gocronlock.TickOf}
		report := ran.Work
		s, err := gocron.NewScheduler()
		if err != nil {
			t.Fatal(err)
		}
		g := testguard.New(t, memlocker.New())

		_, err = gocronlock.AddTick(s, "0 3 * * *", g, "report", report, gocronlock.WithCatchUp(7))
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		time.Sleep(7 * 24 * time.Hour)
		if err := s.Shutdown(); err != nil || len(ran.Ticks(t)) != 7 {
			t.Errorf("%d runs in 7 nights, %v", len(ran.Ticks(t)), err)
		}
	})
}

// Each tick runs on one instance. The bill is for the moment of the tick.
func ExampleAddTick() {
	store := memlocker.New() // redislocker.New(rdb) in production
	billed := make(chan bool, 10)
	for _, l := range []guard.Locker{store, store.Peer()} {
		g, err := guard.New(l, guard.WithName("jobs"))
		if err != nil {
			panic(err)
		}
		defer g.Close(context.Background())
		s, err := gocron.NewScheduler()
		if err != nil {
			panic(err)
		}
		defer func() { _ = s.Shutdown() }() // before the guard, because jobs hold keys
		_, err = gocronlock.AddTick(s, "@every 1s", g, "bill", func(ctx context.Context) error {
			_, ok := gocronlock.TickOf(ctx)
			billed <- ok
			return ctx.Err()
		}, gocronlock.WithCatchUp(3))
		if err != nil {
			panic(err)
		}
		s.Start()
	}
	fmt.Println(<-billed)
	// Output: true
}
