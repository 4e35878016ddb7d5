package guard

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
)

// Lead runs fn whenever this process is elected, which is while it holds key:
// for work that one instance at a time does as long as the service runs. The
// other instances wait in their own calls of Lead, and the next of them is
// elected when the leader ends: at once if its fn returns, within the TTL if it
// was killed or cut off.
//
// Lead returns when fn returns while it leads, with fn's error or nil, and this
// process is not elected again: so fn loops until its context ends. For one
// pass of work at a time use [Guard.TryDo]. The log says that the election is
// over, unless ctx has ended or the guard is closing.
//
// Lead waits as long as ctx lives, whatever MaxWait and MaxWaiters say, also
// through an outage of the store: where Do would return ErrUnavailable at once
// it tries again after a pause, 1 s at most. fn has no MaxHold. Its context
// ends with ctx; with cause ErrClosed when the guard is closed; and with
// ErrLeaseLost before another can lead, as Do's does. Then fn must stop. When
// it has returned, with whatever result, Lead waits for the next election.
//
// It returns ErrNotAcquired, which Is ctx.Err() too, if ctx ends while nobody
// is elected here, then also ErrClosed; and at once ErrInvalidKey,
// ErrInvalidOption or ErrNoDefault, or ErrLeaseLost inside a lease that is
// lost. If it turns out only after fn has returned that the lease was lost, the
// error Is ErrLeaseLost, and fn is not run again. A panic of fn passes through
// after release.
func (g *Guard) Lead(ctx context.Context, key string, fn func(ctx context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	g, err := g.resolve()
	if err != nil {
		return err
	}
	c := g.config
	c.set.MaxWait, c.set.MaxWaiters, c.set.MaxHold = forever, 0, 0
	g = &Guard{config: c, family: g.family}
	refusals := 0
	for {
		l, err := g.Acquire(ctx, key)
		switch {
		case err == nil:
			if over, err := l.lead(fn); over {
				g.logOver(ctx, key, err)
				return err
			}
			refusals = 0
		case !errors.Is(err, ErrUnavailable) || ctx.Err() != nil:
			return err
		default:
			g.family.rest(ctx, betweenElections.Pause(refusals))
			refusals++
		}
	}
}

// forever is a wait that ends with its ctx. Twice as much would overflow.
const forever = 100 * 365 * 24 * time.Hour

// betweenElections is for a store that refuses us: it may be set right.
var betweenElections = turns.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// lead runs fn under l until it returns, and reports whether it led to its end.
func (l *Lease) lead(fn func(ctx context.Context) error) (over bool, err error) {
	err = l.run(l.ctx, func(ctx context.Context) error {
		ctx, stepDown := context.WithCancelCause(ctx)
		defer stepDown(nil)
		go func() { // ends with fn
			select {
			case <-l.guard.family.engine.Closing(): // which would wait for us for ever
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

// rest waits for d, unless ctx or the family ends first.
func (f *family) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-f.engine.Closing():
	}
}
