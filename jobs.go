package guard

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// This file has the verbs for work that every instance starts and one does.

// TryDo is [Guard.Do] for work that is skipped while somebody else does it, as
// a job that every instance starts. If key is held, even by a call of this
// process, it returns false and no error without waiting. It blocks for one
// attempt, as [Guard.TryAcquire] does, and for fn.
//
// ran says whether fn ran. Any other err is one of Do's errors. For example, if
// it Is ErrUnavailable, nobody knows who holds the key.
//
// A job that is shorter than the difference of the instances' clocks runs on
// each instance in turn. Add [WithMinHold] for such a job.
func (g *Guard) TryDo(ctx context.Context, key string, fn func(ctx context.Context) error) (ran bool, err error) {
	g, err = g.toRun(fn == nil)
	if err != nil {
		return false, err
	}
	l, err := g.acquire(ctx, key, once(), nil)
	switch held := (*HeldError)(nil); {
	case errors.As(err, &held) && ctx.Err() == nil: // otherwise it may be the cause of ctx
		return false, nil
	case err != nil:
		return false, err
	}
	return true, l.run(ctx, fn)
}

// Lead runs fn whenever this process is elected, which is while it holds key.
// It is for work that one instance at a time does as long as the service runs.
// The other instances wait in their own calls of Lead. The next of them is
// elected when the leader ends. That is at once if the leader's fn returns. It
// is within the TTL if the leader was killed or cut off.
//
// If fn returns while it leads, Lead returns fn's error or nil. This process is
// not elected again, so fn should loop until its context ends. For one pass of
// work at a time use [Guard.TryDo]. The log has a line at level Info when this
// process is elected, and when it leads no more.
//
// With [WithPermits] so many instances lead at a time. With [WithShared] Lead
// returns ErrInvalidOption.
//
// Lead waits as long as ctx lives, whatever MaxWait and MaxWaiters say. It
// waits even through an outage of the store. Where Do would return
// ErrUnavailable at once, Lead tries again after a pause of at most 1 s.
//
// fn has no MaxHold. Its context ends with ctx. It ends with cause ErrClosed
// when the guard is closed. It ends with ErrLeaseLost before another process
// can lead, as Do's context does. Then fn must stop. When fn has returned, with
// any result, Lead waits for the next election.
//
// If ctx ends while nobody is elected here, Lead returns ErrNotAcquired, which
// Is ctx.Err() too. If the guard is closed in that state, it returns ErrClosed.
// It returns ErrInvalidKey, ErrInvalidOption or ErrNoDefault at once, and
// ErrLeaseLost inside a lease that is lost. The loss of the lease may turn out
// only after fn has returned. Then the error Is ErrLeaseLost, and fn is not run
// again. A panic of fn passes through after release.
func (g *Guard) Lead(ctx context.Context, key string, fn func(ctx context.Context) error) error {
	g, err := g.toRun(fn == nil)
	if err != nil {
		return err
	}
	if g.set.Limit == locker.NoLimit {
		return invalid("Lead with WithShared would elect everybody")
	}
	c := g.config
	c.set.MaxWait, c.set.MaxWaiters, c.set.MaxHold, c.set.Linger, c.set.Lead = forever, 0, 0, 0, true
	g = &Guard{config: c, family: g.family}
	refusals, stands := 0, time.Now()
	for {
		l, err := g.Acquire(ctx, key)
		switch {
		case err == nil:
			began := time.Now()
			g.logElected(ctx, key, stands)
			over, err := l.lead(fn)
			g.logTerm(ctx, key, began, over, err)
			if over {
				return err
			}
			refusals, stands = 0, time.Now()
		case !errors.Is(err, ErrUnavailable), errors.Is(err, ErrNotAcquired): // both if that is the cause of ctx
			return err
		default: // if ctx has ended, the next try says so
			g.family.pause(ctx, betweenElections.Pause(refusals))
			refusals++
		}
	}
}

// betweenElections is the pause between tries at a store that refuses us. An
// operator may set the store right meanwhile.
var betweenElections = turns.Backoff{Initial: 10 * time.Millisecond, Max: time.Second}

// lead runs fn under l until fn returns. It reports whether fn led to its end.
func (l *Lease) lead(fn func(ctx context.Context) error) (over bool, err error) {
	err = l.run(l.ctx, func(ctx context.Context) error {
		ctx, stepDown := context.WithCancelCause(ctx)
		defer stepDown(nil)
		go func() { // ends with fn
			select {
			case <-l.guard.family.engine.Closing(): // Close would wait for us for ever
				stepDown(ErrClosed)
			case <-ctx.Done():
			}
		}()
		err := fn(ctx)
		over = l.Err() == nil
		return err
	})
	return over, err
}

// pause waits for d, unless ctx or the family ends first.
func (f *family) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(limits.Apart(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-f.engine.Closing():
	}
}
