package asynqlock_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/internal/testsize"
	asynqlock "github.com/go-lockguard/guard/jobs/asynq"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const (
	redisEnv = "GUARD_JOBTEST_REDIS"
	keys     = 3
)

// work is a worker process.
func work(t *testing.T) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(redisEnv)})
	ledger := jobtest.Open(rdb)
	g, err := guard.New(redislocker.New(rdb), guard.WithTTL(4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: os.Getenv(redisEnv)}, asynq.Config{
		Concurrency:              4,
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		TaskCheckInterval:        200 * time.Millisecond,
		LogLevel:                 asynq.ErrorLevel,
		IsFailure:                asynqlock.IsFailure,
		RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
			if asynqlock.IsFailure(err) {
				return time.Second
			}
			return asynqlock.RetryDelay(n, err, task)
		},
	})
	mux := asynq.NewServeMux()
	mux.Use(asynqlock.Key(g, key))
	mux.HandleFunc("order:pay", func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		return ledger.Work(ctx, key(task), id, func(ctx context.Context) error {
			if jobtest.Hangs() {
				return jobtest.Hang(ctx)
			}
			time.Sleep(5 * time.Millisecond)
			return nil
		})
	})
	if err := srv.Run(mux); err != nil { // until it is killed
		t.Fatal(err)
	}
}

// enqueue puts tasks from..to into the queue.
func enqueue(t *testing.T, c *asynq.Client, from, to int, opts ...asynq.Option) {
	t.Helper()
	for i := from; i < to; i++ {
		task := asynq.NewTask("order:pay", fmt.Append(nil, i%keys))
		if _, err := c.Enqueue(task, append(opts, asynq.TaskID(fmt.Sprint("task", i)),
			asynq.Timeout(time.Minute))...); err != nil {
			t.Fatal(err)
		}
	}
}

// expireLease skips the minute after which asynq considers a worker dead.
func expireLease(t *testing.T, rdb *redis.Client, task string) {
	t.Helper()
	if err := rdb.ZAddXX(t.Context(), "asynq:{default}:lease", redis.Z{Score: 1, Member: task}).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestTasksOfProcessesRunOneAtATimeAndNoneIsDropped(t *testing.T) {
	if jobtest.Name() != "" {
		work(t)
	}
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	rdb := redistest.Client(t, server.Addr)
	ledger, env := jobtest.Open(rdb), redisEnv+"="+server.Addr
	client := asynq.NewClientFromRedisClient(rdb)
	first := testsize.Pick(60, 15)
	all := first + testsize.Pick(30, 10)

	// The victim takes a task and hangs in it with the key. The others find the
	// key held.
	enqueue(t, client, 0, 1)
	victim := ledger.StartHanging(t, t.Name(), "victim", env)
	stuck := ledger.AwaitBegun(t, "victim")
	enqueue(t, client, 1, first, asynq.MaxRetry(1))
	ledger.Start(t, t.Name(), "other", env)
	ledger.AwaitBegun(t, "other")
	victim.Kill(t)
	expireLease(t, rdb, stuck)
	enqueue(t, client, first, all, asynq.MaxRetry(0)) // so none of them may be refused
	ledger.Start(t, t.Name(), "third", env)           // looks for dead workers when it starts
	ledger.Await(t, "each task is done", func(done map[string]int) bool { return len(done) == all })
	ledger.Check(t)
}

// A server with the settings of the documentation runs tasks of two users.
func TestTasksOfFewKeysDoNotComeBackOneByOne(t *testing.T) {
	t.Parallel() // it mostly waits
	const tasks, users, turn = 12, 2, 300 * time.Millisecond
	server := redistest.Start(t)
	rdb := redistest.Client(t, server.Addr)
	g := testguard.New(t, redislocker.New(rdb), quiet)
	client := asynq.NewClientFromRedisClient(rdb)
	for i := range tasks {
		task := asynq.NewTask("order:pay", fmt.Append(nil, i%users))
		if _, err := client.Enqueue(task, asynq.Timeout(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: server.Addr}, asynq.Config{
		Concurrency: tasks, LogLevel: asynq.FatalLevel,
		IsFailure: asynqlock.IsFailure, RetryDelayFunc: asynqlock.RetryDelay,
	})
	var tries, ended atomic.Int32
	all := make(chan struct{})
	mux := asynq.NewServeMux()
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			tries.Add(1)
			return next.ProcessTask(ctx, task)
		})
	}, asynqlock.Key(g, key))
	mux.HandleFunc("order:pay", func(context.Context, *asynq.Task) error {
		time.Sleep(turn)
		if ended.Add(1) == tasks {
			close(all)
		}
		return nil
	})
	start := time.Now()
	if err := srv.Start(mux); err != nil {
		t.Fatal(err)
	}
	<-all
	t.Logf("%d tasks took %v, in %d tries; ideal: %v", tasks, time.Since(start), tries.Load(), tasks/users*turn)
	srv.Shutdown()
	if tries.Load() > 3*tasks { // more than 2 tries for each if the machine stands still during the waits
		t.Errorf("%d tasks needed %d tries", tasks, tries.Load())
	}
}
