package redislock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/moving/redislock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestALockThatIsHeldIsNotObtained(t *testing.T) {
	_, rdb := redistest.Miniredis(t)
	locks, others := redislock.New(rdb), redislock.New(rdb)
	for _, c := range []*redislock.Client{locks, others} {
		defer func() { _ = c.Guard.Close(context.WithoutCancel(t.Context())) }()
	}
	lock, err := locks.Obtain(t.Context(), "lock:sku:42", time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := rdb.Exists(t.Context(), "lock:sku:42").Val(); n != 1 || lock.Key() != "lock:sku:42" {
		t.Errorf("the lock is not under its name, but %s", lock.Key())
	}
	twice := &redislock.Options{RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(50*time.Millisecond), 2)}
	for _, opt := range []*redislock.Options{nil, {}, {RetryStrategy: redislock.NoRetry()}, twice} {
		_, err := others.Obtain(t.Context(), "lock:sku:42", time.Second, opt)
		if !errors.Is(err, redislock.ErrNotObtained) {
			t.Errorf("%v: %v", opt, err)
		}
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	// The key may still be offered to the last of those waits.
	waits := &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)}
	lock, err = others.Obtain(t.Context(), "lock:sku:42", time.Minute, waits)
	if err != nil {
		t.Fatal(err)
	}
	_ = lock.Release(t.Context())
}

func TestObtainTakesATTLBelowTheLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Miniredis(t)
		locks := redislock.New(rdb)
		defer func() { _ = locks.Guard.Close(context.WithoutCancel(t.Context())) }()
		lock, err := locks.Obtain(t.Context(), "lock:sku:42", time.Microsecond, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := rdb.PTTL(t.Context(), "lock:sku:42").Val(); d != 100*time.Millisecond {
			t.Errorf("the TTL is %v", d)
		}
		_ = lock.Release(t.Context())
	})
}

func TestAsWaitsAsLongAsTheStrategy(t *testing.T) {
	short, second := redislock.LinearBackoff(1), redislock.LinearBackoff(time.Second)
	exponential := redislock.ExponentialBackoff(time.Millisecond, time.Second)
	for strategy, want := range map[redislock.RetryStrategy]time.Duration{
		redislock.NoRetry():                  0,
		second:                               time.Minute,
		redislock.LimitRetry(second, 3):      3 * time.Second,
		redislock.LimitRetry(second, 0):      0,
		redislock.LimitRetry(exponential, 2): 2 * time.Second,
		redislock.LimitRetry(short, 100):     time.Millisecond,
	} {
		opt := &redislock.Options{RetryStrategy: strategy}
		if g := (*guard.Guard)(nil).With(redislock.As(time.Minute, opt)...); g.MaxWait() != want {
			t.Errorf("%v: MaxWait is %v, want %v", strategy, g.MaxWait(), want)
		}
	}
}
