package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// lock is what is under test.
type lock interface {
	do(ctx context.Context, key string, fn func(ctx context.Context, l lease)) error
}

// lease is what a section needs of a *guard.Lease.
type lease interface {
	Err() error
	Deadline() time.Time
	FencingToken(ctx context.Context) (uint64, error)
}

// way is one manner of calling the lock.
type way struct {
	lock
	maxWait time.Duration
}

type guarded struct{ *guard.Guard }

func (g guarded) do(ctx context.Context, key string, fn func(ctx context.Context, l lease)) error {
	return g.Do(ctx, key, func(ctx context.Context) error {
		l, _ := guard.LeaseFrom(ctx)
		fn(ctx, l)
		return nil
	})
}

// newWays returns the manners in which a worker calls the lock, and what closes it.
func newWays(j job) ([]way, func(ctx context.Context) error, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	var l guard.Locker = redislocker.New(rdb)
	m := mutants[j.Mutant]
	if m != nil && m.locker != nil {
		l = m.locker(l, rdb)
	}
	g, err := guard.New(l, guard.WithTTL(j.TTL), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, nil, err
	}
	var ways []way
	add := func(weight int, maxWait time.Duration, opts ...guard.Option) {
		var l lock = guarded{g.With(append(opts, guard.WithMaxWait(maxWait))...)}
		if m != nil && m.lock != nil {
			l = m.lock(l)
		}
		for range weight {
			ways = append(ways, way{l, maxWait})
		}
	}
	add(5, 3*time.Second)
	add(4, 3*time.Second, guard.WithFencing())
	add(2, 50*time.Millisecond)
	add(1, 700*time.Millisecond, guard.WithFencing())
	add(1, 0)
	add(1, 3*time.Second, guard.WithoutRenewal())
	return ways, func(ctx context.Context) error {
		err := g.Close(ctx)
		_ = rdb.Close()
		return err
	}, nil
}
