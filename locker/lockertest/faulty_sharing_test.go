package lockertest_test

import (
	"context"
	"slices"

	"github.com/go-lockguard/guard/locker"
)

var sharingFaults = []fault{
	{
		"lets a claim share its key that must own it alone",
		[]string{
			"shared claims own a key together, and nobody alone beside them",
			"a claim that must be alone waits for all permits",
		},
		func(m memory) locker.Locker { return changesLimit(m, func(n int) int { return max(n, 2) }) },
	},
	{
		"gives shared claims the key of who owns it alone",
		[]string{"a shared claim waits for who owns the key alone"},
		func(m memory) locker.Locker { return shareNotWaits{m} },
	},
	{
		"frees the key when one of its owners releases it",
		[]string{"a release ends the share of its owner only"},
		func(m memory) locker.Locker { return releasesForAnybody{m} },
	},
	{
		"lets no share expire",
		[]string{"each share ends by itself, whatever the others renew"},
		func(m memory) locker.Locker {
			return changesClaim{m, func(c *locker.Claim) {
				if c.Limit > 1 {
					c.TTL *= 1000
				}
			}}
		},
	},
	{
		"puts back a share that has ended",
		[]string{"a share that has ended is not put back"},
		func(m memory) locker.Locker { return recreates{m} },
	},
	{
		"lets the key end with the share that was renewed last",
		[]string{"a renewal shortens the share of nobody else"},
		func(m memory) locker.Locker { return endsWithLatest{m} },
	},
	{
		"does not tell the owners of a shared key that another waits",
		[]string{"every owner of a key learns that another waits"},
		func(m memory) locker.Locker {
			return tells{m, func(w locker.Waker) locker.Waker { return unwanted{w} }}
		},
	},
	{
		"lets newcomers pass who waits",
		[]string{
			"a newcomer stays behind who waits", "who died waiting keeps newcomers out for a while only",
			"a claim that must be alone waits for all permits", "who leaves the queue lets in those behind",
		},
		func(m memory) locker.Locker { return passesQueue{m} },
	},
	{
		"lets the dead keep newcomers out for ever",
		[]string{"who died waiting keeps newcomers out for a while only"},
		func(m memory) locker.Locker { return keepsDead{m} },
	},
	{
		"hands a key to one claim at a time",
		[]string{
			"those behind who gets a key may get it in the same step",
			"who leaves the queue lets in those behind",
		},
		func(m memory) locker.Locker { return handsToOne{m} },
	},
	{
		"forgets the next claim of a release",
		[]string{"who releases a key and may share it can be one of the next"},
		func(m memory) locker.Locker { return forgetsNext{m} },
	},
	{
		"grants one permit too many",
		[]string{"no more claims own a key than there are permits"},
		func(m memory) locker.Locker {
			return changesLimit(m, func(n int) int {
				if n > 1 {
					n++
				}
				return n
			})
		},
	},
	{
		"heeds the highest limit only",
		[]string{"the lower of two limits decides"},
		func(m memory) locker.Locker {
			return changesLimit(m, func(n int) int {
				if n > 1 {
					n = max(n, 4)
				}
				return n
			})
		},
	},
	{
		"remembers a limit for ever",
		[]string{"a limit ends with the claims that have it"},
		func(m memory) locker.Locker { return remembersLimit(m) },
	},
	{
		"gives a permit that ended to who looks",
		[]string{"a permit that has ended goes to the first who waits"},
		func(m memory) locker.Locker { return jumpsQueue{m} },
	},
	{
		"heeds no limit",
		[]string{"claims of all kinds pass, and no more at once than may"},
		func(m memory) locker.Locker { return changesLimit(m, func(int) int { return locker.NoLimit }) },
	},
	{
		"shows one of several owners",
		[]string{"all owners of a key can be seen"},
		func(m memory) locker.Locker { return showsOneOwner{m} },
	},
	{
		"forces the release of all owners of a key",
		[]string{"a forced release ends one share of several"},
		func(m memory) locker.Locker { return forcesAll{m} },
	},
}

func changesLimit(m memory, change func(int) int) locker.Locker {
	return changesClaim{m, func(c *locker.Claim) { c.Limit = change(c.Limit) }}
}

// remembersLimit keeps the lowest limit above 1 that either locker has seen.
func remembersLimit(m memory) locker.Locker {
	return changesClaim{m, func(c *locker.Claim) {
		m.all.mu.Lock()
		defer m.all.mu.Unlock()
		if c.Limit > 1 && (m.all.lowest == 0 || c.Limit < m.all.lowest) {
			m.all.lowest = c.Limit
		}
		if c.Limit > 1 {
			c.Limit = m.all.lowest
		}
	}}
}

type shareNotWaits struct{ memory }

func (l shareNotWaits) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if c.Limit > 1 && l.find(c.Key).Holder != (locker.Holder{}) {
		l.Lose(c.Key)
	}
	return l.memory.Acquire(ctx, c, t)
}

// endsWithLatest drops the other shares before their time.
type endsWithLatest struct{ memory }

func (l endsWithLatest) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i, c := range cs {
		l.memory.Renew(ctx, []*locker.Claim{c}, func(_ int, err error) {
			if err == nil && c.Limit > 1 {
				l.Lose(c.Key)
				_, err = l.memory.Acquire(ctx, c, locker.Try{})
			}
			answered(i, err)
		})
	}
}

type passesQueue struct{ memory }

func (l passesQueue) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if c.Limit > 1 {
		t.Place = -1
	}
	return l.memory.Acquire(ctx, c, t)
}

// keepsDead sees all claims that it ever queued when one looks.
type keepsDead struct{ memory }

func (l keepsDead) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.all.mu.Lock()
	waiting := slices.Clone(l.all.waiting)
	if t.Wait && !t.Queued {
		l.all.waiting = append(l.all.waiting, c)
	}
	l.all.mu.Unlock()
	for _, other := range waiting {
		if other.Key == c.Key && !l.renewed(other) {
			_, _ = l.memory.Acquire(ctx, other, locker.Try{Queued: true})
		}
	}
	return l.memory.Acquire(ctx, c, t)
}

type handsToOne struct{ memory }

func (l handsToOne) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if !t.Wait {
		return l.memory.Acquire(ctx, c, t)
	}
	d := *c
	d.Limit = 1
	return l.memory.Acquire(ctx, &d, t)
}

type forgetsNext struct{ memory }

func (l forgetsNext) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	e.Next = nil
	return l.memory.Release(ctx, c, e)
}

// jumpsQueue takes out of the queue all claims but the one that looks again.
type jumpsQueue struct{ memory }

func (l jumpsQueue) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.all.mu.Lock()
	waiting := slices.Clone(l.all.waiting)
	if t.Wait && !t.Queued {
		l.all.waiting = append(l.all.waiting, c)
	}
	l.all.mu.Unlock()
	for _, other := range waiting {
		if t.Queued && other != c && other.Key == c.Key && !l.renewed(other) {
			_, _ = l.memory.Release(ctx, other, locker.End{Queued: true})
		}
	}
	return l.memory.Acquire(ctx, c, t)
}

type showsOneOwner struct{ memory }

func (l showsOneOwner) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	s, err := l.memory.Inspect(ctx, key)
	s.Owners = s.Owners[:min(len(s.Owners), 1)]
	return s, err
}

type forcesAll struct{ memory }

func (l forcesAll) ForceRelease(ctx context.Context, key, owner string) error {
	err := l.memory.ForceRelease(ctx, key, owner)
	if err == nil {
		l.Lose(key)
	}
	return err
}
