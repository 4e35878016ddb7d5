package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// mutant is a lock with a planted fault: of the guard, or of its store.
type mutant struct {
	lock   func(lock) lock
	locker func(guard.Locker, *redis.Client) guard.Locker
}

var mutants = map[string]*mutant{
	"nolock":    {lock: func(lock) lock { return noLock{} }},
	"overstay":  {lock: func(l lock) lock { return overstays{l} }},
	"noowner":   {locker: func(l guard.Locker, rdb *redis.Client) guard.Locker { return noOwner{l, rdb} }},
	"norenew":   {locker: func(l guard.Locker, _ *redis.Client) guard.Locker { return noRenew{l} }},
	"sametoken": {locker: func(l guard.Locker, _ *redis.Client) guard.Locker { return sameToken{l} }},
	"longlife":  {locker: func(l guard.Locker, _ *redis.Client) guard.Locker { return longLife{l} }},
}

func mutantNames() []string { return slices.Sorted(maps.Keys(mutants)) }

// noLock lets everybody in.
type noLock struct{}

func (noLock) do(ctx context.Context, _ string, fn func(context.Context, lease)) error {
	fn(ctx, noLease{time.Now().Add(time.Minute)})
	return nil
}

type noLease struct{ deadline time.Time }

func (noLease) Err() error                                   { return nil }
func (l noLease) Deadline() time.Time                        { return l.deadline }
func (noLease) FencingToken(context.Context) (uint64, error) { return 0, guard.ErrNoLease }

// overstays goes on waiting when its time is over.
type overstays struct{ lock }

func (o overstays) do(ctx context.Context, key string, fn func(context.Context, lease)) error {
	err := o.lock.do(ctx, key, fn)
	if err != nil {
		time.Sleep(5 * time.Second)
	}
	return err
}

// noOwner frees the key whoever owns it.
type noOwner struct {
	guard.Locker
	rdb *redis.Client
}

func (n noOwner) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	n.rdb.Del(ctx, keyInStore(c.Key))
	return n.Locker.Release(ctx, c, next)
}

func (n noOwner) Abandon(c *locker.Claim, late bool) {
	go n.rdb.Del(context.Background(), keyInStore(c.Key))
	n.Locker.Abandon(c, late)
}

// noRenew says that renewals worked without sending them.
type noRenew struct{ guard.Locker }

func (noRenew) Renew(_ context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i := range cs {
		answered(i, nil)
	}
}

// sameToken gives the same block of tokens for a second.
type sameToken struct{ guard.Locker }

func (s sameToken) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := s.Locker.Acquire(ctx, c, t)
	answer.Token = answer.Token / 1_000_000 * 1_000_000
	return answer, err
}

func (s sameToken) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	token, err := s.Locker.Fence(ctx, c)
	return token / 1_000_000 * 1_000_000, err
}

// longLife keeps keys for four times their TTL, so that a holder that is killed costs too much.
type longLife struct{ guard.Locker }

func (l longLife) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	longer := *c
	longer.TTL *= 4
	answer, err := l.Locker.Acquire(ctx, &longer, t)
	c.Holder.Instance, c.State = longer.Holder.Instance, longer.State
	return answer, err
}

func (l longLife) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	longer := make([]*locker.Claim, len(cs))
	for i, c := range cs {
		copied := *c
		copied.TTL *= 4
		longer[i] = &copied
	}
	l.Locker.Renew(ctx, longer, answered)
}
