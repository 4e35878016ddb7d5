// Package jobguard is what the packages under jobs share: how a job asks for
// its key, and what becomes of a job that does not get it.
package jobguard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard"
)

// Settings are what the options of those packages set.
type Settings struct {
	Wait time.Duration // how long a job may wait for its key; 0 makes one attempt
	Drop bool          // a job whose key is held is over
}

// Apply returns the settings that opts make.
func Apply[O ~func(*Settings)](opts []O) Settings {
	var s Settings
	for _, o := range opts {
		o(&s)
	}
	return s
}

// Guard returns a guard for jobs that wait as s says. It panics if the wait is
// not usable.
func (s Settings) Guard(g *guard.Guard) *guard.Guard { return g.With(guard.WithMaxWait(s.Wait)) }

// RefusedError is the error of a job that did not get its key, and has not
// begun.
type RefusedError struct {
	After time.Duration // when it is likely to get the key, with jitter

	err error
}

func (r *RefusedError) Error() string { return r.err.Error() }

// Unwrap returns the guard's error.
func (r *RefusedError) Unwrap() error { return r.err }

// Held reports whether somebody else had the key. Otherwise nobody knows.
func (r *RefusedError) Held() bool { return Held(r.err) }

// Do runs fn as g.Do does. If the key may be free at another time, and fn has
// not run, its error is a *RefusedError. A wait that ctx has ended is none,
// because the queue has its own rules for a job whose time is over.
func Do(ctx context.Context, g *guard.Guard, key string, fn func(ctx context.Context) error) error {
	err := g.Do(ctx, key, fn)
	if err == nil || guard.Ran(err) || ctx.Err() != nil {
		return err
	}
	for _, passes := range []error{guard.ErrNotAcquired, guard.ErrUnavailable, guard.ErrClosed} {
		if errors.Is(err, passes) {
			return &RefusedError{After: after(err), err: err}
		}
	}
	return err
}

const (
	soonest = time.Second // no sooner, because looking costs the queue and the store a request each
	latest  = time.Minute // no later, because the holder may end long before its lease does
)

// after returns when to try again. The jitter keeps apart what waits for one
// key.
func after(err error) time.Duration {
	var estimate interface{ RetryAfter() time.Duration }
	d := soonest
	if errors.As(err, &estimate) {
		d = min(max(estimate.RetryAfter(), soonest), latest)
	}
	return d + rand.N(d/2)
}
