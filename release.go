package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
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
			return fmt.Errorf("%w: Release inside a call that the lease must outlive", ErrInvalidOption)
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
	runtime.KeepAlive(l) // so that stacks show the address, see findStacks
	panicked = false
	return err
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
	if over := l.fate.begin(); over != nil {
		<-over
		return l.fate.result()
	}
	back, err := l.stop(false)
	answered := !back
	defer func() {
		if !answered { // after a panic or Goexit of an observer or the locker
			err = ErrUnavailable
		}
		l.settle(ctx, err, panicked)
	}()
	if back {
		err = l.turn.ReleaseKey(ctx)
		answered = true
	}
	return err
}

// stop ends l's turn once no call runs inside l. It returns why l was lost, if
// it was. back reports that the caller must release the key, because no other
// call here has taken it over. unused says that l never had a function.
func (l *Lease) stop(unused bool) (back bool, cause error) {
	alone := l.stile.drain(max(l.guard.set.MaxWait, limits.Release(l.guard.set.TTL)))
	if !alone {
		l.turn.Outlived()
	}
	cause = l.fate.release()
	l.cancel(nil)
	if l.outer == nil {
		keep := !unused && (!l.guard.keepIfDone || !l.fn.failed.Load())
		return l.turn.End(alone, keep)
	}
	if cause == nil {
		cause = l.turn.Err()
	}
	l.outer.stile.leave()
	return false, cause
}

// settle notes how the release went and tells log and observers. Everything
// that the store needs is done by then. So a panic in a log or an observer
// costs nothing there.
func (l *Lease) settle(ctx context.Context, err error, panicked bool) {
	if l.outer == nil {
		defer l.turn.Leave()
	}
	l.fate.settle(err)
	if err != nil && !errors.Is(err, ErrLeaseLost) && l.outer == nil {
		l.logRelease(ctx, err)
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
		if at := l.fate.lossTime(); !at.IsZero() {
			r.Overrun = time.Since(at)
		}
	}
	l.hold.end(r)
	if l.outer == nil {
		l.guard.logOverrun(l.hold.ctx, l.key, r.Overrun)
	}
}

// A fate is how far a lease has come to its end: whether it was lost, and
// how its release went. It does no I/O. Its methods are safe for concurrent
// use.
//
// Invariant: cause does not change once it is set, and is not set after
// released. releasing, released and settled become true in this order. err is
// nil until settled.
type fate struct {
	mu        sync.Mutex    // guards the fields below; nothing is locked inside
	cause     error         // why the lease was lost
	lostAt    time.Time     // when it was lost, or could no longer be trusted if that was earlier
	releasing bool          // there has been a first Release
	released  bool          // the first Release is past the re-entrant calls
	settled   bool          // the first Release has its result
	err       error         // that result
	over      chan struct{} // closed when the result is there; the second Release makes it
}

// lose records that the lease was lost. It reports false if it has been lost or
// released before.
func (f *fate) lose(cause error, at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause != nil || f.released {
		return false
	}
	f.cause, f.lostAt = cause, at
	return true
}

// begin returns nil to the first caller that releases the lease. It returns a
// channel to later callers, which is closed when the result is there.
func (f *fate) begin() (over <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.releasing {
		f.releasing = true
		return nil
	}
	if f.over == nil {
		f.over = make(chan struct{})
		if f.settled {
			close(f.over)
		}
	}
	return f.over
}

// release records that the lease is released. It returns why the lease was
// lost, if it was.
func (f *fate) release() (cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = true
	return f.cause
}

// settle records the result of the release.
func (f *fate) settle(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.settled = err, true
	if f.over != nil {
		close(f.over)
	}
}

// result returns the result of the release. It is nil before there is one.
func (f *fate) result() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// state returns whether the lease is released, and why it was lost, if it was.
func (f *fate) state() (released bool, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.released, f.cause
}

// lossTime returns when the lease was lost.
func (f *fate) lossTime() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lostAt
}
