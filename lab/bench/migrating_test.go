package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/lab/bench/internal/host"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// The code of docs/migrating.md that is side by side. It is here because this
// module has the libraries.

var errBusy = errors.New("busy")

func deduct(context.Context, string) error { return nil }

//nolint:errcheck // as people write it
func withRedislock(ctx context.Context, locks *redislock.Client, sku string) error {
	lock, err := locks.Obtain(ctx, "lock:sku:"+sku, 10*time.Second, &redislock.Options{
		RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(50*time.Millisecond), 60),
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer lock.Release(ctx) // not done if ctx has ended
	return deduct(ctx, sku) // goes on if it takes longer than 10 s, beside the next
}

//nolint:errcheck // as people write it
func withRedsync(ctx context.Context, rs *redsync.Redsync, sku string) error {
	m := rs.NewMutex("lock:sku:"+sku, redsync.WithExpiry(10*time.Second), redsync.WithTries(60))
	if err := m.LockContext(ctx); err != nil {
		return err // taken, or Redis is down: look into the error
	}
	defer m.UnlockContext(ctx)
	return deduct(ctx, sku)
}

func byHand(ctx context.Context, rdb *redis.Client, sku string) error {
	ok, err := rdb.SetNX(ctx, "lock:sku:"+sku, "1", 10*time.Second).Result()
	if err != nil || !ok {
		return errBusy
	}
	defer rdb.Del(ctx, "lock:sku:"+sku) // deletes the next one's lock too, if ours has expired
	return deduct(ctx, sku)
}

func withGuard(ctx context.Context, g *guard.Guard, sku string) error {
	err := g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
		return deduct(ctx, sku)
	})
	if errors.Is(err, guard.ErrNotAcquired) {
		return errBusy
	}
	return err
}

func TestTheCodeOfTheMigrationGuideRuns(t *testing.T) {
	srv, err := host.StartServer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer func() { _ = rdb.Close() }()
	g, err := guard.New(memlocker.New())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(t.Context()) }()
	for name, err := range map[string]error{
		"redislock": withRedislock(t.Context(), redislock.New(rdb), "42"),
		"redsync":   withRedsync(t.Context(), redsync.New(goredis.NewPool(rdb)), "42"),
		"by hand":   byHand(t.Context(), rdb, "42"),
		"guard":     withGuard(t.Context(), g, "42"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
