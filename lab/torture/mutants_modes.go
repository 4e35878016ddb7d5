package main

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker"
)

// sharer is a store that keeps its modes though it is wrapped.
type sharer struct{ guard.Locker }

func (s sharer) Shares(limit int) bool { return s.Locker.(locker.Sharer).Shares(limit) }

// freeCrowd frees the key of all when one of them releases it.
type freeCrowd struct {
	sharer
	rdb *redis.Client
}

func newFreeCrowd(l guard.Locker, rdb *redis.Client) guard.Locker { return freeCrowd{sharer{l}, rdb} }

func (f freeCrowd) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if c.Limit > 1 {
		f.rdb.Del(ctx, libs.Guard.Keys(c.Key)...)
	}
	return f.sharer.Release(ctx, c, next)
}

// noStay reports successful renewals of shares without sending them.
type noStay struct{ sharer }

func newNoStay(l guard.Locker, _ *redis.Client) guard.Locker { return noStay{sharer{l}} }

func (n noStay) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	var alone []*locker.Claim
	var at []int
	for i, c := range cs {
		if c.Limit > 1 {
			answered(i, nil)
			continue
		}
		alone, at = append(alone, c), append(at, i)
	}
	n.sharer.Renew(ctx, alone, func(i int, err error) { answered(at[i], err) })
}

// permitToken is sameToken for permits.
type permitToken struct {
	sharer
	same sameToken
}

func newPermitToken(l guard.Locker, _ *redis.Client) guard.Locker {
	return permitToken{sharer{l}, sameToken{l}}
}

func (p permitToken) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	return p.same.Acquire(ctx, c, t)
}

// halfCart claims to have taken all of several keys when it has none.
type halfCart struct{ sharer }

func newHalfCart(l guard.Locker, _ *redis.Client) guard.Locker { return halfCart{sharer{l}} }

func (h halfCart) AcquireAll(
	ctx context.Context, cs []*locker.Claim, _ bool,
) (as []locker.Answer, held int, err error) {
	as, held, err = h.Locker.(locker.Several).AcquireAll(ctx, cs, false)
	if err != nil || held == len(cs) {
		return as, held, err
	}
	as = slices.Repeat([]locker.Answer{{Acquired: true}}, len(cs))
	return as, len(cs), nil
}

func (h halfCart) ReleaseAll(
	ctx context.Context, cs, nexts []*locker.Claim, answered func(int, locker.Released, error),
) {
	h.Locker.(locker.Several).ReleaseAll(ctx, cs, nexts, answered)
}

// oneMore asks for one permit more than the caller says.
type oneMore struct {
	libs.Locker
	libs.Moded
}

func newOneMore(l libs.Locker, _ time.Duration) libs.Locker { return oneMore{l, l.(libs.Moded)} }

func (o oneMore) AcquireLimited(
	ctx context.Context, key string, wait time.Duration, limit int,
) (libs.Lease, error) {
	return o.Moded.AcquireLimited(ctx, key, wait, min(limit+1, locker.NoLimit))
}
