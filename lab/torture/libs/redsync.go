package libs

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redsync is github.com/go-redsync/redsync over go-redis with its defaults
// except the TTL. Unless it is [Documented] it tries for as long as the caller
// waits. A user must look at Until, as the lease here does. With [Redlock] it
// has one pool for each server, which is its intended use.
var Redsync = &Library{
	Name:       "redsync",
	Topologies: Redises,
	Keys:       itself,
	open:       openRedsync,
}

type redsyncLocker struct {
	rdbs  []redis.UniversalClient
	locks *redsync.Redsync
	setup Setup
}

func openRedsync(s Setup) (Locker, error) {
	rdbs := s.clients()
	var pools []syncredis.Pool
	for _, rdb := range rdbs {
		pools = append(pools, goredis.NewPool(rdb))
	}
	return &redsyncLocker{rdbs, redsync.New(pools...), s}, nil
}

func (l *redsyncLocker) Acquire(ctx context.Context, key string, wait time.Duration) (Lease, error) {
	mutex := l.locks.NewMutex(key, l.options()...) // one for each call, because it is also the lease
	try := mutex.LockContext
	if wait <= 0 {
		try = mutex.TryLockContext
	}
	ctx, cancel := waitFor(ctx, wait, l.setup.TTL)
	defer cancel()
	if err := try(ctx); err != nil {
		return nil, err
	}
	return newRenewed(lock{
		every: l.setup.every(), until: l.until(mutex),
		renew: func(ctx context.Context) (time.Time, error) {
			_, err := mutex.ExtendContext(ctx)
			return l.until(mutex), err
		},
		release: func(ctx context.Context) error { _, err := mutex.UnlockContext(ctx); return err },
	}), nil
}

// until is zero if it must not be watched.
func (l *redsyncLocker) until(m *redsync.Mutex) time.Time {
	if l.setup.Unwatched {
		return time.Time{}
	}
	return m.Until()
}

func (l *redsyncLocker) options() []redsync.Option {
	opts := []redsync.Option{redsync.WithExpiry(l.setup.TTL)}
	if l.setup.Tries == Documented {
		return opts
	}
	return append(opts, redsync.WithFailFast(l.setup.Tries == Fastest), redsync.WithTries(1<<30),
		redsync.WithRetryDelayFunc(func(int) time.Duration { return often.NextBackoff() }))
}

func (l *redsyncLocker) Close(context.Context) error { return closeAll(l.rdbs) }
