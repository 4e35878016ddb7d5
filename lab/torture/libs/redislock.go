package libs

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// Redislock is github.com/bsm/redislock over go-redis with its defaults. It
// does not tell when a lock ends.
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
		opts.RetryStrategy = l.setup.retries()
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

// retries returns a new strategy for each caller, because a strategy may have a
// state.
func (s *Setup) retries() redislock.RetryStrategy {
	switch s.Tries {
	case Documented:
		return redislock.LinearBackoff(100 * time.Millisecond)
	case Fastest:
		return jitter{time.Millisecond, 20 * time.Millisecond}
	}
	return often
}

// every is the interval at which the user renews a lease.
func (s *Setup) every() time.Duration {
	if s.NoRenewal {
		return 0
	}
	return s.TTL / 3
}

func (l *redislockLocker) Close(context.Context) error { return l.rdb.Close() }

// jitter is a redislock.RetryStrategy of random waits. With its own strategies
// all callers try in step.
type jitter struct{ from, to time.Duration }

func (j jitter) NextBackoff() time.Duration { return j.from + rand.N(j.to-j.from) }

var often = jitter{5 * time.Millisecond, 25 * time.Millisecond}
