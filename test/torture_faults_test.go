package guard_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// shortLived drops keys after a quarter of their TTL, before the first renewal.
// A store whose clock runs fast would do the same.
type shortLived struct{ guard.Locker }

func (s shortLived) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	short := *c
	short.TTL /= 4
	return s.Locker.Acquire(ctx, &short, t)
}

// deaf says that renewals worked without sending them.
type deaf struct{ guard.Locker }

func (deaf) Renew(_ context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i := range cs {
		answered(i, nil)
	}
}

// repeats gives the same block of tokens for a second.
type repeats struct{ guard.Locker }

func (r repeats) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := r.Locker.Acquire(ctx, c, t)
	answer.Token = answer.Token / 1_000_000 * 1_000_000
	return answer, err
}

// promiscuous has a store of its own for each claim, so it excludes nobody.
type promiscuous struct{ guard.Locker }

func (p promiscuous) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := p.Locker.Acquire(ctx, c, t)
	if err == nil && !answer.Acquired {
		return locker.Answer{Acquired: true}, nil
	}
	return answer, err
}

func (promiscuous) Renew(_ context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i := range cs {
		answered(i, nil)
	}
}

// careless frees a key for any caller, because it does not compare the owner
// id.
type careless struct {
	guard.Locker
	owners *sync.Map // the claims that have been seen to own their keys
}

func (c careless) Acquire(ctx context.Context, cl *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := c.Locker.Acquire(ctx, cl, t)
	if answer.Acquired {
		c.owners.Store(cl.Key, *cl)
	}
	return answer, err
}

func (c careless) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	c.Locker.Renew(ctx, cs, func(i int, err error) {
		if err == nil {
			c.owners.Store(cs[i].Key, *cs[i])
		}
		answered(i, err)
	})
}

func (c careless) Abandon(cl *locker.Claim, late bool) {
	if owner, ok := c.owners.Load(cl.Key); ok {
		o := owner.(locker.Claim)
		c.Locker.Abandon(&o, false)
	}
	c.Locker.Abandon(cl, late)
}

// tampered has something between the locker and its gate.
type tampered struct {
	guard.Locker
	with func(locker.Waker) locker.Waker
}

func (t tampered) Open(w locker.Waker) error { return t.Locker.Open(t.with(w)) }

// swallows reports that every grant is known here.
type swallows struct{ locker.Waker }

func (s swallows) Granted(key, owner string, o locker.Offer) bool {
	s.Waker.Granted(key, owner, o)
	return true
}

// drops loses every grant.
type drops struct{ locker.Waker }

func (drops) Granted(string, string, locker.Offer) bool { return true }

var owners sync.Map

// faults are the faults that the torture must notice. Each entry says whether
// it does so on a store that is sound otherwise.
var faults = map[string]struct {
	calm bool
	in   func(guard.Locker) guard.Locker
}{
	"nobody is excluded":           {in: func(l guard.Locker) guard.Locker { return promiscuous{l} }},
	"keys expire early":            {in: func(l guard.Locker) guard.Locker { return shortLived{l} }},
	"renewals are lost":            {in: func(l guard.Locker) guard.Locker { return deaf{l} }},
	"tokens repeat":                {in: func(l guard.Locker) guard.Locker { return repeats{l} }},
	"the owner id is not compared": {in: func(l guard.Locker) guard.Locker { return careless{l, &owners} }},
	"a grant for nobody is swallowed": {
		calm: true,
		in:   tamper(func(w locker.Waker) locker.Waker { return swallows{w} }),
	},
	"a grant is dropped": {calm: true, in: tamper(func(w locker.Waker) locker.Waker { return drops{w} })},
}

func tamper(with func(locker.Waker) locker.Waker) func(guard.Locker) guard.Locker {
	return func(l guard.Locker) guard.Locker { return tampered{l, with} }
}

func TestTorture_NoticesABrokenLocker(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				noticed := false
				synctest.Test(t, func(t *testing.T) {
					tt := newTorture()
					tt.calm, tt.fault = fault.calm, fault.in
					tt.run(t, seed)
					noticed = len(tt.violations) > 0
				})
				if noticed {
					return
				}
			}
			t.Error("went unnoticed")
		})
	}
}
