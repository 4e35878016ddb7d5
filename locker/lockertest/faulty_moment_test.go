package lockertest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var momentFaults = []fault{
	{
		"loses who is queued in the moment of a release",
		[]string{"a claim that is queued in the moment of a release stays queued"},
		func(m memory) locker.Locker { return losesAtRelease{m} },
	},
	{
		"revives a lease that has ended",
		[]string{"a lease that has ended is not renewed, though nobody took its key"},
		func(m memory) locker.Locker { return &revives{memory: m} },
	},
	{
		"fences and releases a lease that has ended",
		[]string{"a lease that has ended gets no tokens and is not released"},
		func(m memory) locker.Locker { return &fencesEnded{revives{memory: m}} },
	},
	{
		"ends a lease late",
		[]string{"a lease ends no later than the store says"},
		func(m memory) locker.Locker { return changesTTL(m, 3) },
	},
	{
		"leaves the distance of two blocks of tokens to its clock",
		[]string{"fencing tokens rise while the clock of the store stands"},
		func(m memory) locker.Locker { return changesToken{m, trustsClock} },
	},
}

type losesAtRelease struct{ memory }

func (l losesAtRelease) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if a.Queued && l.all.releasing > 0 {
		l.all.meanwhile = append(l.all.meanwhile, c)
	}
	return a, err
}

func (l losesAtRelease) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	l.count(1)
	time.Sleep(time.Millisecond)
	r, err := l.memory.Release(ctx, c, e)
	l.count(-1)
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	for _, c := range l.all.meanwhile {
		_, _ = l.memory.Release(ctx, c, locker.End{Queued: true})
	}
	l.all.meanwhile = nil
	return r, err
}

func (l losesAtRelease) count(n int) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.all.releasing += n
}

// revives gives a key that nobody took to the claim whose lease on it has
// ended.
type revives struct {
	memory
	owned sync.Map // owner ids that acquired and did not release
}

func (l *revives) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if a.Acquired {
		l.owned.Store(c.Owner, true)
	}
	return a, err
}

// revived reports whether err is about a lease that had ended and now lives
// again.
func (l *revives) revived(c *locker.Claim, err error) bool {
	_, owned := l.owned.Load(c.Owner)
	if !errors.Is(err, locker.ErrLeaseLost) || !owned || !l.find(c.Key).Acquired {
		return false
	}
	_, _ = l.memory.Acquire(context.Background(), c, locker.Try{})
	return true
}

func (l *revives) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	l.memory.Renew(ctx, cs, func(i int, err error) {
		if l.revived(cs[i], err) {
			err = nil
		}
		answered(i, err)
	})
}

func (l *revives) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	l.owned.Delete(c.Owner)
	return l.memory.Release(ctx, c, e)
}

type fencesEnded struct{ revives }

func (l *fencesEnded) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	l.memory.Renew(ctx, cs, answered)
}

func (l *fencesEnded) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	token, err := l.memory.Fence(ctx, c)
	if l.revived(c, err) {
		return l.memory.Fence(ctx, c)
	}
	return token, err
}

var last atomic.Uint64 // token of all lockers with the fault

func trustsClock() uint64 {
	return last.Add(1 + uint64(max(0, time.Now().UnixMicro()-int64(last.Load()))))
}
