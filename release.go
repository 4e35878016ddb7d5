package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// This file ends leases. A lease ends its turn first, without any I/O. Then it
// releases its key, if no other call here takes the grant over.

// Release ends the lease. It waits for re-entrant calls that run inside it.
// Then it frees the key or hands it to the next caller in line. The request has
// its own time limit of at most 1 s. It uses only the values of ctx, so ctx
// need not be alive.
//
// A lease from Acquire or TryAcquire may still run inside this one, because the
// two are released in the wrong order. Release waits for it until MaxWait or
// little more, but at least for its own limit. Then both leases are lost, and
// the key ends with its TTL.
//
// Release returns nil if the lease was held to the end. It returns
// ErrLeaseLost, ErrMaxHold or ErrClosed if the lease was lost. It returns
// ErrUnavailable if the store did not confirm, and then the key ends with its
// TTL. Calling it again returns the same.
//
// With the ctx of one of those re-entrant calls Release would wait for itself.
// Then it does nothing and returns ErrInvalidOption. It does the same with a
// nil ctx.
func (l *Lease) Release(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	for in := leaseIn(ctx); in != nil; in = in.enclosing {
		if in.runsInside(l) && !in.isReleased() {
			return invalid("Release inside a call that the lease must outlive")
		}
	}
	return l.release(ctx, false)
}

// run runs fn under the lease and releases it, whatever fn does.
func (l *Lease) run(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	if l.bare {
		return afterRun(fn(l.ctx))
	}
	panicked := true // or Goexit
	defer func() {
		l.fn.failed.Store(panicked || err != nil)
		lost := l.release(ctx, panicked)
		if !panicked {
			err = afterRun(withLoss(err, lost))
		}
	}()
	l.fn.called.Store(true)
	err = fn(l.ctx)
	runtime.KeepAlive(l) // so that stacks show the address, see frame
	panicked = false
	return err
}

// frame returns how a stack begins the line of the method that runs the
// function of l.
func (l *Lease) frame() string {
	if l.all != nil {
		return fmt.Sprintf("%s(%p,", runsUnderSeveral, l.all)
	}
	return fmt.Sprintf("%s(%p,", runsUnderOne, l)
}

// withLoss returns the error of Do. That is fn's error, and the loss of the
// lease if there was one and fn does not say the same of a lease inside this
// one. Any other error of the release is no loss, because fn had the key to its
// end.
func withLoss(err, lost error) error {
	switch {
	case !errors.Is(lost, ErrLeaseLost), errors.Is(err, lost):
		return err
	case err == nil:
		return lost
	case errors.Is(err, ErrLeaseLost) && err.Error() == lost.Error():
		return err
	}
	return fmt.Errorf("%w: %w", lost, err)
}

func (l *Lease) release(ctx context.Context, panicked bool) (err error) {
	if over := l.ending.begin(); over != nil {
		<-over
		return l.ending.known().err
	}
	back, err := l.stop(false)
	defer func() { l.settle(ctx, err, panicked) }()
	if back {
		err = ErrUnavailable // after a panic or Goexit of an observer or the locker
		err = l.turn.ReleaseKey(ctx)
	}
	return err
}

// stop ends l's turn once no call runs inside l. It returns why l was lost, if
// it was. back reports that the caller must release the key, because no other
// call here has taken it over. unused says that l never had a function.
func (l *Lease) stop(unused bool) (back bool, cause error) {
	alone := l.entrance.drain(max(l.guard.set.MaxWait, limits.Release(l.guard.set.TTL)))
	if !alone {
		l.turn.Outlived()
	}
	cause = l.ending.release()
	l.cancel(nil)
	if l.outer == nil {
		keep := !unused && (!l.guard.keepIfDone || !l.fn.failed.Load())
		return l.turn.End(alone, keep)
	}
	if cause == nil {
		cause = l.turn.Err()
	}
	l.outer.entrance.leave()
	return false, cause
}

// settle notes how the release went and tells log and observers. Everything
// that the store needs is done by then. So a panic in a log or an observer
// costs nothing there.
func (l *Lease) settle(ctx context.Context, err error, panicked bool) {
	if l.outer == nil {
		defer l.turn.Leave()
	}
	l.ending.settle(err)
	if err != nil && !errors.Is(err, ErrLeaseLost) && l.outer == nil {
		l.noteRelease(ctx, err)
	}
	l.tellEnd(err, panicked)
}

// tellEnd tells observers and log that l has been released.
func (l *Lease) tellEnd(err error, panicked bool) {
	r := HoldResult{Held: time.Since(l.hold.began), Err: err, Panicked: panicked}
	if l.outer == nil && !l.bare {
		r.Recorded = l.turn.Recorded()
		if l.turn.Keeps() && errors.Is(err, ErrUnavailable) {
			r.Err = fmt.Errorf("%w: %w", ErrNotRecorded, err)
		}
	}
	if errors.Is(err, ErrLeaseLost) {
		l.tellLoss(err)
		if at := l.ending.known().lostAt; !at.IsZero() {
			r.Overrun = time.Since(at)
		}
	}
	for _, o := range l.guard.observers {
		o.HoldEnd(l.hold.ctx, l.hold.info, r)
	}
	if l.outer == nil {
		l.guard.logOverrun(l.hold.ctx, l.key, r.Overrun)
	}
}
