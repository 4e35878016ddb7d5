package lockertest_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/locker"
)

type excludesNobody struct{ memory }

func (l excludesNobody) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.Lose(c.Key)
	return l.memory.Acquire(ctx, c, t)
}

// changesClaim is for faults that mistake one claim for another.
type changesClaim struct {
	memory
	change func(c *locker.Claim)
}

func (l changesClaim) changed(c *locker.Claim) *locker.Claim {
	d := *c
	l.change(&d)
	return &d
}

func (l changesClaim) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	return l.memory.Acquire(ctx, l.changed(c), t)
}

func (l changesClaim) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	var changed []*locker.Claim
	for _, c := range cs {
		changed = append(changed, l.changed(c))
	}
	l.memory.Renew(ctx, changed, answered)
}

func (l changesClaim) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Next != nil {
		e.Next = l.changed(e.Next)
	}
	return l.memory.Release(ctx, l.changed(c), e)
}

func cutsOwner(m memory) locker.Locker {
	return changesClaim{m, func(c *locker.Claim) { c.Owner = c.Owner[:locker.OwnerLen-1] }}
}

func changesTTL(m memory, factor float64) locker.Locker {
	return changesClaim{m, func(c *locker.Claim) { c.TTL = time.Duration(float64(c.TTL) * factor) }}
}

func changesKey(m memory, change func(string) string) locker.Locker {
	return changesClaim{m, func(c *locker.Claim) { c.Key = change(c.Key) }}
}

func cutLong(key string) string { return key[:min(len(key), locker.MaxKey-1)] }
func repair(key string) string  { return strings.ToValidUTF8(key, "\ufffd") }

func unescape(key string) string {
	for {
		shorter, err := url.PathUnescape(key)
		if err != nil || shorter == key {
			return key
		}
		key = shorter
	}
}

type mistakesHolder struct{ memory }

func (l mistakesHolder) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if !a.Acquired {
		a.Holder = c.Holder
	}
	return a, err
}

type acquiresOnce struct{ memory }

func (l acquiresOnce) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if a := l.find(c.Key); !a.Acquired {
		return a, nil
	}
	return l.memory.Acquire(ctx, c, t)
}

type keepsOldTTL struct{ memory }

func (l keepsOldTTL) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	found := l.find(c.Key)
	a, err := l.memory.Acquire(ctx, c, t)
	if a.Acquired && !found.Acquired {
		d := *c
		d.TTL = found.Remaining
		_, err = l.memory.Acquire(ctx, &d, t)
	}
	return a, err
}

type renewsNothing struct{ memory }

func (l renewsNothing) Renew(_ context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i := range cs {
		answered(i, nil)
	}
}

type answersForOne struct{ memory }

func (l answersForOne) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	l.memory.Renew(ctx, cs[:min(len(cs), 1)], answered)
}

type recreates struct{ memory }

func (l recreates) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i, c := range cs {
		var lost error
		if a, err := l.memory.Acquire(ctx, c, locker.Try{}); err != nil || !a.Acquired {
			lost = locker.ErrLeaseLost
		}
		answered(i, lost)
	}
}

type renewsForAnybody struct{ memory }

func (l renewsForAnybody) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	l.memory.Renew(ctx, cs, func(i int, err error) {
		if !l.find(cs[i].Key).Acquired {
			err = nil
		}
		answered(i, err)
	})
}

type stopsAtLost struct{ memory }

func (l stopsAtLost) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	var lost error
	for i, c := range cs {
		if lost == nil {
			l.memory.Renew(ctx, []*locker.Claim{c}, func(_ int, err error) { lost = err })
		}
		answered(i, lost)
	}
}

type releasesForAnybody struct{ memory }

func (l releasesForAnybody) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	r, err := l.memory.Release(ctx, c, e)
	l.Lose(c.Key)
	return r, err
}

type hidesLoss struct{ memory }

func (l hidesLoss) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	r, err := l.memory.Release(ctx, c, e)
	if errors.Is(err, locker.ErrLeaseLost) {
		err = nil
	}
	return r, err
}

type changesToken struct {
	memory
	change func() uint64
}

// given is shared by all lockers. The fault is in the tokens, not in the locker
// that counts them.
var given atomic.Uint64

func constant() uint64 { return 7 }
func single() uint64   { return given.Add(1) }

func (l changesToken) Open(w locker.Waker) error {
	return l.memory.Open(grants{w, func(_, _ string, token *uint64) bool {
		if *token != 0 {
			*token = l.change()
		}
		return true
	}})
}

func (l changesToken) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	a.Token = l.change()
	return a, err
}

func (l changesToken) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	_, err := l.memory.Fence(ctx, c)
	return l.change(), err
}

type fencesForAnybody struct{ memory }

func (l fencesForAnybody) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	token, err := l.memory.Fence(ctx, c)
	if errors.Is(err, locker.ErrLeaseLost) {
		return 1 << 60, nil
	}
	return token, err
}

type ignoresContext struct{ memory }

func (l ignoresContext) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if ctx.Err() != nil {
		time.Sleep(10 * time.Second)
	}
	return l.memory.Acquire(ctx, c, t)
}

type liesAboutContext struct{ memory }

func (l liesAboutContext) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if ctx.Err() != nil {
		return locker.Released{}, locker.ErrLeaseLost
	}
	return l.memory.Release(ctx, c, e)
}

type unhealthy struct{ memory }

func (l unhealthy) Check(context.Context, time.Duration) error { return locker.ErrUnavailable }

type opensTwice struct{ memory }

func (l opensTwice) Open(w locker.Waker) error {
	_ = l.memory.Open(w)
	return nil
}

type neverCloses struct{ memory }

func (l neverCloses) Close(context.Context) error { return nil }

type closesOnce struct {
	memory
	closed bool
}

func (l *closesOnce) Close(ctx context.Context) error {
	if l.closed {
		return locker.ErrClosed
	}
	l.closed = true
	return l.memory.Close(ctx)
}
