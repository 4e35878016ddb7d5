package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// dice decide all faults of one store.
type dice struct {
	mu sync.Mutex // guards r
	r  *rand.Rand
}

func newDice(seed, stream uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, stream))} }

func (d *dice) one(in int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(in) == 0
}

func (d *dice) upTo(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.r.Int64N(int64(most)))
}

// late waits now and then, like an answer or a request that is held up.
func (d *dice) late(ctx context.Context) {
	if !d.one(20) {
		return
	}
	select {
	case <-time.After(d.upTo(3 * time.Second)):
	case <-ctx.Done():
	}
}

var errRefused = errors.New("the store refuses")

// unreliable is a locker whose answers get lost, come late or are refusals.
func unreliable(l guard.Locker, d *dice) *spy {
	s := &spy{Locker: l}
	s.acquire = func(ctx context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
		if d.one(200) {
			return locker.Answer{}, errRefused
		}
		answer, err := next()
		d.late(ctx)
		if d.one(20) || ctx.Err() != nil {
			return locker.Answer{Queued: true}, guard.ErrUnavailable
		}
		return answer, err
	}
	s.renew = func(ctx context.Context, next func() []error) []error {
		if d.one(2) {
			d.late(ctx)
		}
		errs := next()
		d.late(ctx)
		for i := range errs {
			if d.one(20) || ctx.Err() != nil {
				errs[i] = guard.ErrUnavailable
			}
		}
		return errs
	}
	s.fence = func(_ context.Context, next func() (uint64, error)) (uint64, error) {
		token, err := next()
		if d.one(20) {
			return 0, guard.ErrUnavailable
		}
		return token, err
	}
	s.release = func(ctx context.Context, next releases) (locker.Released, error) {
		d.late(ctx)
		freed, err := next()
		if d.one(20) {
			return locker.Released{}, guard.ErrUnavailable
		}
		return freed, err
	}
	return s
}

// forgetful loses half of the messages that a locker has for its gate.
type forgetful struct {
	locker.Waker
	d *dice
}

func (f forgetful) Granted(key, owner string, o locker.Offer) {
	if f.d.one(2) {
		f.Waker.Granted(key, owner, o)
	}
}

func (f forgetful) Wanted(key string) {
	if f.d.one(2) {
		f.Waker.Wanted(key)
	}
}

type losesHalf struct {
	guard.Locker
	d *dice
}

func (l losesHalf) Open(w locker.Waker) error { return l.Locker.Open(forgetful{w, l.d}) }

// leisurely is a sound store that takes its time to clean up behind callers
// that have left. So keys are granted to them. It frees the keys that were ours
// sooner.
type leisurely struct {
	guard.Locker
	d    *dice
	ours sync.Map // owner ids that had a key
	work sync.WaitGroup
}

// leisure is the longest time that it takes to free a key.
const leisure = 5 * time.Millisecond

func (l *leisurely) Open(w locker.Waker) error { return l.Locker.Open(noting{w, l}) }

// noting notes the owners that are granted a key.
type noting struct {
	locker.Waker
	l *leisurely
}

func (n noting) Granted(key, owner string, o locker.Offer) {
	n.l.ours.Store(owner, true) // noted before anybody can give it up
	n.Waker.Granted(key, owner, o)
}

func (l *leisurely) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := l.Locker.Acquire(ctx, c, t)
	if answer.Acquired {
		l.ours.Store(c.Owner, true)
	}
	return answer, err
}

func (l *leisurely) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if !e.Queued {
		return l.Locker.Release(ctx, c, e)
	}
	most := 200 * leisure
	if _, had := l.ours.Load(c.Owner); had {
		most = leisure
	}
	l.work.Go(func() {
		time.Sleep(l.d.upTo(most))
		_, _ = l.Locker.Release(context.WithoutCancel(ctx), c, e)
	})
	return locker.Released{}, nil
}

func (l *leisurely) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(int, locker.Released, error),
) {
	for i, c := range cs {
		r, err := l.Release(ctx, c, ends[i])
		answered(i, r, err)
	}
}

func (l *leisurely) Close(ctx context.Context) error {
	l.work.Wait()
	return l.Locker.Close(ctx)
}
