package lockertest_test

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var queueFaults = []fault{
	{
		"queues the next claim of a lost lease",
		[]string{"a release that has lost its lease queues nothing"},
		func(m memory) locker.Locker { return queuesLost{m} },
	},
	{
		"queues the next claim in front of those who wait",
		[]string{"who waits longest is served first, and who releases last"},
		func(m memory) locker.Locker { return nextInFront{m} },
	},
	{
		"tells a wrong count with a grant",
		[]string{"a release gives the key to who waits", "who waits longest is served first, and who releases last"},
		func(m memory) locker.Locker {
			return tells{m, func(w locker.Waker) locker.Waker { return miscounts{w, func(int) int { return 77 }} }}
		},
	},
	{
		"does not count the releaser's next claim in a grant",
		[]string{"who waits longest is served first, and who releases last"},
		func(m memory) locker.Locker {
			return tells{m, func(w locker.Waker) locker.Waker {
				return miscounts{w, func(n int) int { return max(n-1, 0) }}
			}}
		},
	},
	{
		"says of who owns the key that it is queued",
		[]string{"a claim that acquires its key leaves the queue"},
		func(m memory) locker.Locker { return queuedOwner{m} },
	},
	{
		"takes out of the queue who tries without Wait",
		[]string{"a try that does not wait leaves the queue as it is"},
		func(m memory) locker.Locker { return dropsTriers{m} },
	},
	{
		"queues who does not wait",
		[]string{"a try that does not wait leaves the queue as it is"},
		func(m memory) locker.Locker { return changesTry{m, func(t *locker.Try) { t.Wait = true }} },
	},
	{
		"grants a rest that nobody asked for",
		[]string{"a rest is granted to who asks, and for no longer"},
		func(m memory) locker.Locker {
			return rests{m, func(_ locker.Try, a *locker.Answer) { a.Rest = time.Second }}
		},
	},
	{
		"grants a rest to who is not in the queue",
		[]string{"a rest is granted to who asks, and for no longer"},
		func(m memory) locker.Locker {
			return rests{m, func(t locker.Try, a *locker.Answer) { a.Rest = min(t.Rest, locker.MaxRest) }}
		},
	},
	{
		"forgets who rests",
		[]string{"a claim that rests is served though nobody looks"},
		func(m memory) locker.Locker { return forgetsRest{m} },
	},
	{
		"lets everybody rest",
		[]string{"a claim that nobody sees when its rest is over leaves the queue"},
		func(m memory) locker.Locker { return restsLong{m} },
	},
	{
		"keeps a free key for the first in the queue",
		[]string{"a free key is anybody's, whoever is in the queue"},
		func(m memory) locker.Locker { return keepsForFirst{m} },
	},
}

type queuesLost struct{ memory }

func (l queuesLost) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	r, err := l.memory.Release(ctx, c, e)
	if e.Next != nil && errors.Is(err, locker.ErrLeaseLost) {
		_, _ = l.memory.Acquire(ctx, e.Next, locker.Try{Wait: true})
	}
	return r, err
}

type nextInFront struct{ memory }

func (l nextInFront) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	r, err := l.memory.Release(ctx, c, locker.End{})
	if e.Next != nil && r.Handed {
		a, _ := l.memory.Acquire(ctx, e.Next, locker.Try{Wait: true, Place: -1})
		r.Queued, r.Place = a.Queued, a.Place
	}
	return r, err
}

type miscounts struct {
	locker.Waker
	change func(int) int
}

func (w miscounts) Granted(key, owner string, o locker.Offer) {
	o.Waiting = w.change(o.Waiting)
	w.Waker.Granted(key, owner, o)
}

type queuedOwner struct{ memory }

func (l queuedOwner) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	a.Queued = a.Queued || t.Queued
	return a, err
}

type dropsTriers struct{ memory }

func (l dropsTriers) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if !t.Wait && !l.renewed(c) {
		_, _ = l.memory.Release(ctx, c, locker.End{Queued: true})
	}
	return l.memory.Acquire(ctx, c, t)
}

type rests struct {
	memory
	change func(t locker.Try, a *locker.Answer)
}

func (l rests) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	l.change(t, &a)
	return a, err
}

type forgetsRest struct{ memory }

func (l forgetsRest) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	asked := min(t.Rest, locker.MaxRest)
	t.Rest = 0
	a, err := l.memory.Acquire(ctx, c, t)
	if a.Queued {
		a.Rest = asked
	}
	return a, err
}

// restsLong gives sound answers, but lets each claim rest for the longest time
// that is allowed.
type restsLong struct{ memory }

func (l restsLong) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	asked := t.Rest
	t.Rest = locker.MaxRest
	a, err := l.memory.Acquire(ctx, c, t)
	a.Rest = min(a.Rest, asked)
	return a, err
}

// takesOutLate gives up a claim that nobody has seen for QueueLife, but the
// claim acquires its key just before.
type takesOutLate struct {
	memory
	seen map[*locker.Claim]time.Time
}

func (l takesOutLate) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.all.mu.Lock()
	late := t.Queued && time.Since(l.seen[c]) >= locker.QueueLife
	l.seen[c] = time.Now()
	l.all.mu.Unlock()
	a, err := l.memory.Acquire(ctx, c, t)
	if late {
		_, _ = l.Release(ctx, c, locker.End{Queued: true})
	}
	return a, err
}

// keepsForFirst refuses a claim that does not wait, while a claim that was
// queued may be in the queue.
type keepsForFirst struct{ memory }

func (l keepsForFirst) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.all.mu.Lock()
	until := l.all.kept[c.Key]
	l.all.mu.Unlock()
	if !t.Wait && time.Now().Before(until) && !l.renewed(c) {
		return locker.Answer{}, ctx.Err()
	}
	a, err := l.memory.Acquire(ctx, c, t)
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.all.kept == nil {
		l.all.kept = make(map[string]time.Time)
	}
	if delete(l.all.kept, c.Key); a.Queued {
		l.all.kept[c.Key] = time.Now().Add(locker.QueueLife)
	}
	return a, err
}

type answersTwice struct{ memory }

func (l answersTwice) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	l.memory.Renew(ctx, cs, func(i int, err error) {
		answered(i, err)
		answered(i, err)
	})
}
