package libs

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// Redislock is github.com/bsm/redislock over go-redis with its defaults, and tries every 5 to 25 ms. It says nothing of when a
// lock ends.
var Redislock = &Library{
	Name:       "redislock",
	Topologies: []Topology{Single, Sentinel, Cluster},
	Keys:       itself,
	open:       openRedislock,
}

func itself(key string) []string { return []string{key} }

type redislockLocker struct {
	rdb   redis.UniversalClient
	locks *redislock.Client
	setup Setup
}

func openRedislock(s Setup) (Locker, error) {
	rdb := s.client()
	return &redislockLocker{rdb, redislock.New(rdb), s}, nil
}

func (l *redislockLocker) Acquire(ctx context.Context, key string, wait time.Duration) (Lease, error) {
	var opts redislock.Options
	if wait > 0 {
		opts.RetryStrategy = jitter{}
	}
	ctx, cancel := waitFor(ctx, wait, l.setup.TTL)
	defer cancel()
	held, err := l.locks.Obtain(ctx, key, l.setup.TTL, &opts)
	if err != nil {
		return nil, err
	}
	return newRenewed(lock{
		every: l.setup.every(),
		renew: func(ctx context.Context) (time.Time, error) {
			return time.Time{}, held.Refresh(ctx, l.setup.TTL, nil)
		},
		release: held.Release,
	}), nil
}

// every is when a lease is renewed by its user.
func (s *Setup) every() time.Duration {
	if s.NoRenewal {
		return 0
	}
	return s.TTL / 3
}

func (l *redislockLocker) Close(context.Context) error { return l.rdb.Close() }

// jitter is a redislock.RetryStrategy of random waits: its own ones have all callers try in step.
type jitter struct{}

func (jitter) NextBackoff() time.Duration { return 5*time.Millisecond + rand.N(20*time.Millisecond) }
