package lockertest_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var listeningFaults = []fault{
	{
		"claims to listen and does not",
		[]string{"who lingers is told again at each look"},
		func(m memory) locker.Locker {
			return tells{m, func(w locker.Waker) locker.Waker { return unwanted{w} }}
		},
	},
	{
		"never listens",
		[]string{"who lingers is told again at each look", "a closed locker does not listen"},
		func(m memory) locker.Locker { return listens{m, false} },
	},
	{
		"tells an owner that lingers only once",
		[]string{"who lingers is told again at each look"},
		func(m memory) locker.Locker {
			return changesClaim{m, func(c *locker.Claim) { c.Lingers = false }}
		},
	},
	{
		"tells an owner that lingers of no reader that looks again",
		[]string{"who lingers is told again at each look"},
		func(m memory) locker.Locker { return deafToReaders{m} },
	},
	{
		"does not say that the owner of one of several keys lingers",
		[]string{"an answer tells whether the owner lingers"},
		func(m memory) locker.Locker { return hidesLingers{m} },
	},
	{
		"loses in the holder that its claim lingers",
		[]string{"an answer tells whether the owner lingers"},
		func(m memory) locker.Locker { return saysLingers{m, false} },
	},
	{
		"says of every owner that it lingers",
		[]string{"an answer tells whether the owner lingers"},
		func(m memory) locker.Locker { return saysLingers{m, true} },
	},
	{
		"does not show that an owner lingers",
		[]string{"who lingers can be seen"},
		func(m memory) locker.Locker {
			return shows{m, func(s *locker.KeyState) { s.Lingers = false }}
		},
	},
	{
		"shows every owner as one that lingers",
		[]string{"who lingers can be seen"},
		func(m memory) locker.Locker {
			return shows{m, func(s *locker.KeyState) { s.Lingers = true }}
		},
	},
	{
		"cuts the first lease of a claim that lingers",
		[]string{"the first lease of who lingers lasts its offer"},
		func(m memory) locker.Locker { return cutsFirst{m} },
	},
	{
		"listens after Close",
		[]string{"a closed locker does not listen"},
		func(m memory) locker.Locker { return listens{m, true} },
	},
}

type listens struct {
	memory
	always bool
}

func (l listens) Listens() bool { return l.always }

type saysLingers struct {
	memory
	always bool
}

func (l saysLingers) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	a.Lingers = l.always
	return a, err
}

type deafToReaders struct{ memory }

func (l deafToReaders) Open(w locker.Waker) error { return l.memory.Open(cutOff{w, &l.all.deaf}) }

func (l deafToReaders) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.all.deaf.Store(c.Limit > 1 && t.Queued)
	defer l.all.deaf.Store(false)
	return l.memory.Acquire(ctx, c, t)
}

type hidesLingers struct{ memory }

func (l hidesLingers) AcquireAll(ctx context.Context, cs []*locker.Claim, prefix bool) ([]locker.Answer, int, error) {
	as, held, err := l.memory.AcquireAll(ctx, cs, prefix)
	for i := range as {
		as[i].Lingers = false
	}
	return as, held, err
}

type cutsFirst struct{ memory }

func (l cutsFirst) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	d := *c
	if c.Lingers {
		d.TTL = time.Second
	}
	return l.memory.Acquire(ctx, &d, t)
}

// missesOutage carries out an Acquire of an outage after it. The message of
// that is lost, and nobody is woken.
type missesOutage struct{ memory }

func (l missesOutage) Open(w locker.Waker) error { return l.memory.Open(cutOff{w, &l.all.deaf}) }

func (l missesOutage) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	a, err := l.memory.Acquire(ctx, c, t)
	switch {
	case err != nil && t.Wait:
		l.all.again(c.Owner, func() { _, _ = l.memory.Acquire(context.Background(), c, t) })
	case err == nil:
		l.all.deaf.Store(true)
		for _, w := range l.all.queued {
			w.look()
		}
		l.all.queued = nil
		l.all.deaf.Store(false)
	}
	return a, err
}

type cutOff struct {
	locker.Waker
	deaf *atomic.Bool
}

func (cutOff) WakeAll() {}

func (w cutOff) Wanted(key string) {
	if !w.deaf.Load() {
		w.Waker.Wanted(key)
	}
}

// cutForGood queues nothing in an outage, and loses all messages from then on.
type cutForGood struct{ memory }

func (l cutForGood) Open(w locker.Waker) error { return l.memory.Open(cutOff{w, &l.all.deaf}) }

func (l cutForGood) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if err != nil {
		l.all.deaf.Store(true)
	}
	return a, err
}
