package cronlock_test

import (
	"context"
	"os"
	"strconv"
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

// tickProcess is a process with a job that ticks every second.
func tickProcess(t *testing.T) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(redisEnv)})
	ledger := jobtest.Open(rdb)
	g, err := guard.New(redislocker.New(rdb), guard.WithTTL(4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c := cron.New()
	_, err = cronlock.AddTick(c, "@every 1s", g, "report", func(ctx context.Context) error {
		at, _ := cronlock.TickOf(ctx)
		return ledger.Work(ctx, "job:report", strconv.FormatInt(at.Unix(), 10), func(ctx context.Context) error {
			if jobtest.Hangs() {
				return jobtest.Hang(ctx)
			}
			return nil
		})
	}, cronlock.WithCatchUp(60))
	if err != nil {
		t.Fatal(err)
	}
	c.Run() // until it is killed
}

// Processes are killed inside the job and between runs. Whoever comes next runs
// the tick, and the ticks that were missed meanwhile.
func TestAddTick_EachTickIsDoneOnceThoughProcessesAreKilled(t *testing.T) {
	if jobtest.Name() != "" {
		tickProcess(t)
	}
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	ledger := jobtest.Open(redistest.Client(t, server.Addr))
	env := redisEnv + "=" + server.Addr
	start := func(name string) *jobtest.Process { return ledger.Start(t, t.Name(), name, env) }
	a, b := start("a"), start("b")
	var first, last int64
	done := func(n int64) func(map[string]int) bool {
		return func(ticks map[string]int) bool {
			if first == 0 {
				for tick := range ticks {
					first, _ = strconv.ParseInt(tick, 10, 64)
				}
			}
			last = first
			for first > 0 && ticks[strconv.FormatInt(last, 10)] > 0 {
				last++
			}
			return last-first >= n
		}
	}
	ledger.Await(t, "the first ticks", done(2))
	victim := ledger.StartHanging(t, t.Name(), "victim", env)
	a.Kill(t)
	b.Kill(t)
	ledger.AwaitBegun(t, "victim")
	victim.Kill(t) // inside the job
	c := start("c")
	ledger.Await(t, "c goes on", done(last-first+4))
	c.Kill(t)
	time.Sleep(3 * time.Second) // nobody is there
	start("d")
	start("e")
	ledger.Await(t, "each tick was done", done(last-first+int64(testsize.Pick(10, 5))))
	ledger.Check(t)
	ledger.CheckOnce(t)
}
