package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker"
)

// spoiled is a store with a fault. Each function that is not nil stands for a
// method of the store, which the function may call.
type spoiled struct {
	guard.Locker
	rdb *redis.Client // reaches the servers as the guard does

	acquire func(ctx context.Context, s *spoiled, c *locker.Claim, t locker.Try) (locker.Answer, error)
	all     func(ctx context.Context, s *spoiled, cs []*locker.Claim) ([]locker.Answer, int, error)
	renew   func(ctx context.Context, s *spoiled, cs []*locker.Claim, answered func(int, error))
	release func(ctx context.Context, s *spoiled, c *locker.Claim, e locker.End) (locker.Released, error)
	unmarks bool // Begin does nothing
	deaf    bool // no message that a key was handed over reaches its waiter
}

func (s *spoiled) Open(w locker.Waker) error {
	if s.deaf {
		w = deaf{w}
	}
	return s.Locker.Open(w)
}

func (s *spoiled) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if s.acquire != nil {
		return s.acquire(ctx, s, c, t)
	}
	return s.Locker.Acquire(ctx, c, t)
}

func (s *spoiled) AcquireAll(ctx context.Context, cs []*locker.Claim, wait bool) ([]locker.Answer, int, error) {
	if s.all != nil {
		return s.all(ctx, s, cs)
	}
	return s.Locker.AcquireAll(ctx, cs, wait)
}

func (s *spoiled) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	if s.renew != nil {
		s.renew(ctx, s, cs, answered)
		return
	}
	s.Locker.Renew(ctx, cs, answered)
}

func (s *spoiled) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if s.release != nil {
		return s.release(ctx, s, c, e)
	}
	return s.Locker.Release(ctx, c, e)
}

func (s *spoiled) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (string, error) {
	if s.unmarks {
		return "", nil
	}
	return s.Locker.Begin(ctx, c, r)
}

// deaf claims that every grant is known here, and tells no waiter.
type deaf struct{ locker.Waker }

func (deaf) Granted(string, string, locker.Offer) {}

func inStore(key string) string { return libs.Guard.Keys(key)[0] }

// freeKey frees the key without a look at its owner.
func freeKey(ctx context.Context, s *spoiled, c *locker.Claim, e locker.End) (locker.Released, error) {
	s.rdb.Del(ctx, inStore(c.Key))
	return s.Locker.Release(ctx, c, e)
}

// freeCrowd frees the key of all when one of them releases it.
func freeCrowd(ctx context.Context, s *spoiled, c *locker.Claim, e locker.End) (locker.Released, error) {
	if c.Limit > 1 {
		s.rdb.Del(ctx, libs.Guard.Keys(c.Key)...)
	}
	return s.Locker.Release(ctx, c, e)
}

// onlyFree says that it has kept a record, and only frees the key.
func onlyFree(ctx context.Context, s *spoiled, c *locker.Claim, e locker.End) (locker.Released, error) {
	e.Record = locker.Record{}
	return s.Locker.Release(ctx, c, e)
}

// renewOf sends the renewals of the claims that is is true of, and says of the
// others that they have succeeded.
func renewOf(is func(*locker.Claim) bool) func(context.Context, *spoiled, []*locker.Claim, func(int, error)) {
	return func(ctx context.Context, s *spoiled, cs []*locker.Claim, answered func(int, error)) {
		var sent []*locker.Claim
		var at []int
		for i, c := range cs {
			if is(c) {
				sent, at = append(sent, c), append(at, i)
				continue
			}
			answered(i, nil)
		}
		s.Locker.Renew(ctx, sent, func(i int, err error) { answered(at[i], err) })
	}
}

func none(*locker.Claim) bool    { return false }
func alone(c *locker.Claim) bool { return c.Limit <= 1 }

// recreate sets the key without a look at its owner.
func recreate(ctx context.Context, s *spoiled, cs []*locker.Claim, answered func(int, error)) {
	for i, c := range cs {
		if err := s.set(ctx, c); err != nil {
			answered(i, guard.ErrUnavailable)
			continue
		}
		answered(i, nil)
	}
}

func (s *spoiled) set(ctx context.Context, c *locker.Claim) error {
	return s.rdb.Set(ctx, inStore(c.Key), c.Owner+c.Holder.Instance+"{}", c.TTL).Err()
}

// notJoined does that a little after it has reported success.
func notJoined(ctx context.Context, s *spoiled, cs []*locker.Claim, answered func(int, error)) {
	for i, c := range cs {
		copied := *c
		go func() {
			time.Sleep(rand.N(100 * time.Millisecond))
			_ = s.set(context.WithoutCancel(ctx), &copied)
		}()
		answered(i, nil)
	}
}

// sameToken gives the same block of tokens for a second.
func sameToken(ctx context.Context, s *spoiled, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := s.Locker.Acquire(ctx, c, t)
	answer.Token = answer.Token / 1_000_000 * 1_000_000
	return answer, err
}

// localTokens is the last block of tokens that this process has counted.
var localTokens atomic.Uint64

func localToken(ctx context.Context, s *spoiled, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := s.Locker.Acquire(ctx, c, t)
	if answer.Acquired {
		answer.Token = localTokens.Add(locker.FenceBlock)
	}
	return answer, err
}

// noRecall finds no record.
func noRecall(ctx context.Context, s *spoiled, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	d := *c
	d.Recall = false
	a, err := s.Locker.Acquire(ctx, &d, t)
	c.State, c.Holder.Instance = d.State, d.Holder.Instance
	return a, err
}

// longLife keeps keys for four times their TTL.
func longLife(ctx context.Context, s *spoiled, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	longer := *c
	longer.TTL *= 4
	answer, err := s.Locker.Acquire(ctx, &longer, t)
	c.Holder.Instance, c.State = longer.Holder.Instance, longer.State
	return answer, err
}

func renewLonger(ctx context.Context, s *spoiled, cs []*locker.Claim, answered func(int, error)) {
	longer := make([]*locker.Claim, len(cs))
	for i, c := range cs {
		copied := *c
		copied.TTL *= 4
		longer[i] = &copied
	}
	s.Locker.Renew(ctx, longer, answered)
}

// noTTL lets some keys stay forever if they are not released.
func noTTL(ctx context.Context, s *spoiled, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := s.Locker.Acquire(ctx, c, t)
	if answer.Acquired {
		s.rdb.Persist(ctx, inStore(c.Key))
		s.rdb.Persist(ctx, inStore(c.Key)+":fence")
	}
	return answer, err
}

// halfCart claims to have taken all of several keys when it has none.
func halfCart(ctx context.Context, s *spoiled, cs []*locker.Claim) ([]locker.Answer, int, error) {
	as, held, err := s.Locker.AcquireAll(ctx, cs, false)
	if err != nil || held == len(cs) {
		return as, held, err
	}
	return slices.Repeat([]locker.Answer{{Acquired: true}}, len(cs)), len(cs), nil
}
