package gocronlock_test

import (
	"context"
	"errors"
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

// Nobody is there for some ticks. The instance that starts then runs them.
func TestAddTick_OnRedisEachTickRunsOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	server, ran := redistest.Start(t), &jobtest.Ticked{TickOf: gocronlock.TickOf}
	start := func() (stop func()) {
		s, err := gocron.NewScheduler()
		if err != nil {
			t.Fatal(err)
		}
		g, err := guard.New(redislocker.New(redistest.Client(t, server.Addr)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gocronlock.AddTick(s, "@every 1s", g, "report", ran.Work, gocronlock.WithCatchUp(60)); err != nil {
			t.Fatal(err)
		}
		s.Start()
		return func() {
			if err := errors.Join(s.Shutdown(), g.Close(context.WithoutCancel(t.Context()))); err != nil {
				t.Error(err)
			}
		}
	}
	await := func(n int) (ticks []time.Time) {
		for ; len(ticks) < n; time.Sleep(10 * time.Millisecond) {
			ticks = ran.Ticks(t)
		}
		return ticks
	}
	one, two := start(), start()
	await(3)
	one()
	two()
	time.Sleep(2 * time.Second)
	one, two = start(), start()
	ticks := await(8)
	one()
	two()
	for i, at := range ticks {
		if !at.Equal(ticks[0].Add(time.Duration(i) * time.Second)) {
			t.Errorf("tick %d of %v comes late or early", i, ticks)
		}
	}
}
