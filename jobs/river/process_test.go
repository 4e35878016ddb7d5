package riverlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/testsize"
	riverlock "github.com/go-lockguard/guard/jobs/river"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const (
	redisEnv    = "GUARD_JOBTEST_REDIS"
	postgresEnv = "GUARD_JOBTEST_POSTGRES"
	orders      = 3
)

// noted is a worker that records its runs.
type noted struct {
	river.WorkerDefaults[PayArgs]

	ledger jobtest.Ledger
}

func (n noted) Work(ctx context.Context, job *river.Job[PayArgs]) error {
	return n.ledger.Work(ctx, key(job), fmt.Sprint("job", job.ID), func(ctx context.Context) error {
		if jobtest.Hangs() {
			return jobtest.Hang(ctx)
		}
		time.Sleep(5 * time.Millisecond)
		return nil
	})
}

func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// work is a worker process.
func work(t *testing.T) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(redisEnv)})
	g, err := guard.New(redislocker.New(rdb), guard.WithTTL(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, riverlock.Key(g, key, river.Worker[PayArgs](noted{ledger: jobtest.Open(rdb)})))
	client, err := river.NewClient(riverpgxv5.New(connect(t, os.Getenv(postgresEnv))), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers:           workers,
		FetchPollInterval: 200 * time.Millisecond,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {} // until it is killed
}

// enqueue puts jobs into the queue that may be tried only once.
func enqueue(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := client.Insert(t.Context(), PayArgs{1 + i%orders}, &river.InsertOpts{MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJobsOfProcessesRunOneAtATimeAndNoneIsDropped(t *testing.T) {
	if jobtest.Name() != "" {
		work(t)
	}
	postgres, err := sqltest.StartPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(postgres.Close)
	pool := connect(t, postgres.URL)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	ledger := jobtest.Open(redistest.Client(t, server.Addr))
	env := []string{redisEnv + "=" + server.Addr, postgresEnv + "=" + postgres.URL}

	// The victim takes a job and hangs in it with the key. The others find the
	// key held.
	enqueue(t, pool, 1)
	victim := ledger.StartHanging(t, t.Name(), "victim", env...)
	stuck := ledger.AwaitBegun(t, "victim")
	ledger.Start(t, t.Name(), "other", env...)
	ledger.Start(t, t.Name(), "third", env...)
	victim.Kill(t)
	all := 1 + testsize.Pick(60, 20)
	enqueue(t, pool, all-1)
	// Skip the hour after which River considers a worker dead.
	_, err = pool.Exec(t.Context(),
		`UPDATE river_job SET state = 'available', attempt = 0 WHERE 'job' || id = $1`, stuck)
	if err != nil {
		t.Fatal(err)
	}
	ledger.Await(t, "each job is done", func(done map[string]int) bool { return len(done) == all })
	ledger.Check(t)
}
