package lockertest_test

import (
	"context"

	"github.com/go-lockguard/guard/locker"
)

var severalFaults = []fault{
	{
		"takes several keys though one is held",
		[]string{"of several keys none is acquired, or those in front of one that is held"},
		func(m memory) locker.Locker { return seizesAll{m} },
	},
	{
		"keeps the keys in front though all or none were asked for",
		[]string{"of several keys none is acquired, or those in front of one that is held"},
		func(m memory) locker.Locker { return alwaysPrefix{m} },
	},
	{
		"takes one key less than it says",
		[]string{"several free keys are acquired together"},
		func(m memory) locker.Locker { return skipsLast{m} },
	},
	{
		"does not prolong several keys that it has already",
		[]string{"who acquires several keys again has the full TTL again"},
		func(m memory) locker.Locker { return keepsAll{m} },
	},
	{
		"ends its releases at the first key that was lost",
		[]string{"each of several keys is released by itself", "several claims are given up together"},
		func(m memory) locker.Locker { return stopsReleasing{m} },
	},
}

type seizesAll struct{ memory }

func (l seizesAll) AcquireAll(ctx context.Context, cs []*locker.Claim, prefix bool) ([]locker.Answer, int, error) {
	for _, c := range cs {
		l.Lose(c.Key)
	}
	return l.memory.AcquireAll(ctx, cs, prefix)
}

type alwaysPrefix struct{ memory }

func (l alwaysPrefix) AcquireAll(ctx context.Context, cs []*locker.Claim, prefix bool) ([]locker.Answer, int, error) {
	as, held, err := l.memory.AcquireAll(ctx, cs, true)
	if !prefix && held < len(cs) {
		for i := range as {
			as[i].Acquired = false
		}
	}
	return as, held, err
}

type skipsLast struct{ memory }

func (l skipsLast) AcquireAll(ctx context.Context, cs []*locker.Claim, prefix bool) ([]locker.Answer, int, error) {
	as, held, err := l.memory.AcquireAll(ctx, cs, prefix)
	if held == len(cs) {
		l.Lose(cs[0].Key)
	}
	return as, held, err
}

type keepsAll struct{ memory }

func (l keepsAll) AcquireAll(ctx context.Context, cs []*locker.Claim, prefix bool) ([]locker.Answer, int, error) {
	as := make([]locker.Answer, len(cs))
	for i, c := range cs {
		if as[i].Acquired = l.find(c.Key).Holder == c.Holder && c.Holder.Instance != ""; !as[i].Acquired {
			return l.memory.AcquireAll(ctx, cs, prefix)
		}
	}
	return as, len(cs), nil
}

type stopsReleasing struct{ memory }

func (l stopsReleasing) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(i int, r locker.Released, err error),
) {
	var lost error
	for i, c := range cs {
		var r locker.Released
		err := lost
		if lost == nil {
			r, err = l.Release(ctx, c, ends[i])
			lost = err
		}
		answered(i, r, err)
	}
}
