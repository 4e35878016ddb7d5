package cronlock_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	cronlock "github.com/go-lockguard/guard/jobs/cron"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const redisEnv = "GUARD_JOBTEST_REDIS"

// work is a process with two jobs that tick every second.
func work(t *testing.T) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(redisEnv)})
	ledger := jobtest.Open(rdb)
	g, err := guard.New(redislocker.New(rdb), guard.WithTTL(4*time.Second), guard.WithObserver(ledger.Asking()))
	if err != nil {
		t.Fatal(err)
	}
	c := cron.New()
	for _, name := range []string{"report", "mail"} {
		key := guard.Key("job", name)
		job := cronlock.Func(func(ctx context.Context) error {
			return ledger.Work(ctx, key, name, func(ctx context.Context) error {
				if jobtest.Hangs() {
					return jobtest.Hang(ctx)
				}
				return nil
			})
		})
		c.Schedule(cron.Every(time.Second), cronlock.Key(g, key)(job))
	}
	c.Run() // until it is killed
}

func TestTicksOfProcessesRunOneAtATimeAndGoOnAfterADeath(t *testing.T) {
	if jobtest.Name() != "" {
		work(t)
	}
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	ledger := jobtest.Open(redistest.Client(t, server.Addr))
	env := redisEnv + "=" + server.Addr
	victim := ledger.StartHanging(t, t.Name(), "victim", env)
	ledger.AwaitBegun(t, "victim")
	ledger.Start(t, t.Name(), "other", env)
	ledger.Start(t, t.Name(), "third", env)
	ledger.AwaitAsked(t, guard.Key("job", "report"), 3, "other", "third") // both skip two ticks
	victim.Kill(t)
	ticks := testsize.Pick(10, 3)
	ledger.Await(t, "both jobs go on", func(done map[string]int) bool {
		return done["report"] >= ticks && done["mail"] >= ticks
	})
	ledger.Check(t)
}
