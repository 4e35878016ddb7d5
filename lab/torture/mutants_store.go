package main

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker"
)

func inStore(key string) string { return libs.Guard.Keys(key)[0] }

// noOwner frees the key without a look at its owner.
type noOwner struct {
	guard.Locker
	rdb *redis.Client
}

func newNoOwner(l guard.Locker, rdb *redis.Client) guard.Locker { return noOwner{l, rdb} }

func (n noOwner) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	n.rdb.Del(ctx, inStore(c.Key))
	return n.Locker.Release(ctx, c, e)
}

// noRenew reports successful renewals without sending them.
type noRenew struct{ guard.Locker }

func newNoRenew(l guard.Locker, _ *redis.Client) guard.Locker { return noRenew{l} }

func (noRenew) Renew(_ context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i := range cs {
		answered(i, nil)
	}
}

// recreate sets the key without a look at its owner.
type recreate struct {
	guard.Locker
	rdb *redis.Client
}

func newRecreate(l guard.Locker, rdb *redis.Client) guard.Locker { return recreate{l, rdb} }

func (r recreate) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i, c := range cs {
		if err := r.set(ctx, c); err != nil {
			answered(i, guard.ErrUnavailable)
			continue
		}
		answered(i, nil)
	}
}

func (r recreate) set(ctx context.Context, c *locker.Claim) error {
	return r.rdb.Set(ctx, inStore(c.Key), c.Owner+c.Holder.Instance+"{}", c.TTL).Err()
}

// notJoined does that a little after it has reported success.
type notJoined struct{ recreate }

func newNotJoined(l guard.Locker, rdb *redis.Client) guard.Locker { return notJoined{recreate{l, rdb}} }

func (n notJoined) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i, c := range cs {
		copied := *c
		go func() {
			time.Sleep(rand.N(100 * time.Millisecond))
			_ = n.set(context.WithoutCancel(ctx), &copied)
		}()
		answered(i, nil)
	}
}

// sameToken gives the same block of tokens for a second.
type sameToken struct{ guard.Locker }

func newSameToken(l guard.Locker, _ *redis.Client) guard.Locker { return sameToken{l} }

func (s sameToken) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := s.Locker.Acquire(ctx, c, t)
	answer.Token = answer.Token / 1_000_000 * 1_000_000
	return answer, err
}

// localToken counts by itself.
type localToken struct {
	guard.Locker
	last atomic.Uint64
}

func newLocalToken(l guard.Locker, _ *redis.Client) guard.Locker { return &localToken{Locker: l} }

func (l *localToken) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := l.Locker.Acquire(ctx, c, t)
	if answer.Acquired {
		answer.Token = l.last.Add(locker.FenceBlock)
	}
	return answer, err
}

// tampered puts code between the locker and its gate.
type tampered struct {
	guard.Locker
	with func(locker.Waker) locker.Waker
}

func (t tampered) Open(w locker.Waker) error { return t.Locker.Open(t.with(w)) }

// lostWakeUp claims that every grant is known here, and tells no waiter.
type lostWakeUp struct{ locker.Waker }

func (lostWakeUp) Granted(string, string, locker.Offer) {}

func newLostWakeUp(l guard.Locker, _ *redis.Client) guard.Locker {
	return tampered{l, func(w locker.Waker) locker.Waker { return lostWakeUp{w} }}
}

// longLife keeps keys for four times their TTL.
type longLife struct{ guard.Locker }

func newLongLife(l guard.Locker, _ *redis.Client) guard.Locker { return longLife{l} }

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

// noTTL lets some keys stay forever if they are not released.
type noTTL struct {
	guard.Locker
	rdb *redis.Client
}

func newNoTTL(l guard.Locker, rdb *redis.Client) guard.Locker { return noTTL{l, rdb} }

func (n noTTL) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := n.Locker.Acquire(ctx, c, t)
	if answer.Acquired {
		n.rdb.Persist(ctx, inStore(c.Key))
		n.rdb.Persist(ctx, inStore(c.Key)+":fence")
	}
	return answer, err
}
