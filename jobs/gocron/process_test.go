package gocronlock_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	gocronlock "github.com/go-lockguard/guard/jobs/gocron"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const (
	redisEnv = "GUARD_JOBTEST_REDIS"
	electEnv = "GUARD_JOBTEST_ELECT"
)

// work is a process with two jobs that tick every second.
func work(t *testing.T) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(redisEnv)})
	ledger := jobtest.Open(rdb)
	g, err := guard.New(redislocker.New(rdb), guard.WithTTL(4*time.Second), guard.WithObserver(ledger.Asking()))
	if err != nil {
		t.Fatal(err)
	}
	distributed := gocron.WithDistributedLocker(gocronlock.NewLocker(g))
	if os.Getenv(electEnv) != "" {
		e := gocronlock.NewElector(g, "scheduler")
		go func() { t.Error(e.Lead(t.Context())) }() // until it is killed
		distributed = gocron.WithDistributedElector(e)
	}
	s, err := gocron.NewScheduler(distributed)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now().Truncate(time.Second).Add(time.Second) // the same everywhere
	for _, name := range []string{"report", "mail"} {
		job := func() error {
			return ledger.Work(t.Context(), guard.Key("job", name), name, func(ctx context.Context) error {
				if jobtest.Hangs() {
					return jobtest.Hang(ctx)
				}
				return nil
			})
		}
		if _, err := s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(job), gocron.WithName(name),
			gocron.WithStartAt(gocron.WithStartDateTime(start)), gocron.WithSingletonMode(gocron.LimitModeReschedule),
		); err != nil {
			t.Fatal(err)
		}
	}
	s.Start()
	select {} // until it is killed
}

func TestTicksOfProcessesRunOneAtATimeAndGoOnAfterADeath(t *testing.T) {
	if jobtest.Name() != "" {
		work(t)
	}
	for name, elect := range map[string]string{"Locker": "", "Elector": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			const test = "TestTicksOfProcessesRunOneAtATimeAndGoOnAfterADeath"
			server := redistest.Start(t)
			ledger := jobtest.Open(redistest.Client(t, server.Addr))
			env := []string{redisEnv + "=" + server.Addr, electEnv + "=" + elect}
			victim := ledger.StartHanging(t, test, "victim", env...)
			ledger.AwaitBegun(t, "victim")
			ledger.Start(t, test, "other", env...)
			ledger.Start(t, test, "third", env...)
			key, n := guard.Key("job", "report"), 3 // of which two are refused
			if elect != "" {
				key, n = "scheduler", 1 // they wait
			}
			ledger.AwaitAsked(t, key, n, "other", "third")
			victim.Kill(t)
			ticks := testsize.Pick(10, 3)
			ledger.Await(t, "both jobs go on", func(done map[string]int) bool {
				return done["report"] >= ticks && done["mail"] >= ticks
			})
			ledger.Check(t)
		})
	}
}
