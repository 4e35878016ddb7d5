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

// freeCrowd frees the key of all when one of them releases it.
type freeCrowd struct {
	guard.Locker
	rdb *redis.Client
}

func newFreeCrowd(l guard.Locker, rdb *redis.Client) guard.Locker { return freeCrowd{l, rdb} }

func (f freeCrowd) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if c.Limit > 1 {
		f.rdb.Del(ctx, libs.Guard.Keys(c.Key)...)
	}
	return f.Locker.Release(ctx, c, e)
}

// noStay reports successful renewals of shares without sending them.
type noStay struct{ guard.Locker }

func newNoStay(l guard.Locker, _ *redis.Client) guard.Locker { return noStay{l} }

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
	n.Locker.Renew(ctx, alone, func(i int, err error) { answered(at[i], err) })
}

// permitToken is sameToken for permits.
type permitToken struct {
	guard.Locker
	same sameToken
}

func newPermitToken(l guard.Locker, _ *redis.Client) guard.Locker {
	return permitToken{l, sameToken{l}}
}

func (p permitToken) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	return p.same.Acquire(ctx, c, t)
}

// halfCart claims to have taken all of several keys when it has none.
type halfCart struct{ guard.Locker }

func newHalfCart(l guard.Locker, _ *redis.Client) guard.Locker { return halfCart{l} }

func (h halfCart) AcquireAll(
	ctx context.Context, cs []*locker.Claim, _ bool,
) (as []locker.Answer, held int, err error) {
	as, held, err = h.Locker.AcquireAll(ctx, cs, false)
	if err != nil || held == len(cs) {
		return as, held, err
	}
	as = slices.Repeat([]locker.Answer{{Acquired: true}}, len(cs))
	return as, len(cs), nil
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
