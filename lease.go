package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/leasekey"
)

// Lease is one turn of one caller on its key. Work that needs the key runs under [Lease.Context], and the caller releases
// the lease when it is done. Its methods are safe for concurrent use.
type Lease struct {
	guard  *Guard
	key    string
	outer  *Lease // the innermost lease of the verb's ctx
	within *Lease // the lease that the verb runs inside, on the same key; nil: a turn of its own

	inside bool // within, and to leave it

	// Of a turn of its own; written before anybody else can see the lease.
	call   call
	grant  *grant
	number int // of the turn within the grant, from 1

	info    WaitInfo
	began   time.Time
	holdCtx context.Context // the observers' context
	ctx     context.Context // what the work runs under

	once       sync.Once // the first Release
	releaseErr error

	mu       sync.Mutex // guards what follows; never held across I/O or a callback
	cancel   context.CancelCauseFunc
	cause    error         // why the lease was lost
	lostAt   time.Time     // when, or when it could not be trusted any longer if that was before
	told     bool          // observers and log know of the loss
	released bool          // the first Release is past its re-entrant calls
	slot     chan struct{} // taken by the re-entrant call that runs inside; made by the first one
	gone     chan struct{} // closed when the lease is lost or released; made with slot
	inner    *Lease        // that call's lease
}

// open gives a lease that has its turn its context.
func (l *Lease) open(ctx context.Context, info WaitInfo) {
	l.info, l.began = info, time.Now()
	l.holdCtx = l.guard.holdStart(ctx, info)
	ctx, cancel := context.WithCancelCause(l.holdCtx)
	l.ctx = &leaseContext{Context: ctx, lease: l}

	l.mu.Lock()
	l.cancel = cancel
	cause := l.cause // lost before we came here
	l.mu.Unlock()
	if cause != nil {
		l.end(cause)
	}
	if l.within != nil {
		if cause := l.within.setInner(l); cause != nil {
			l.lost(cause)
		}
	}
}

// leaseContext is a context that answers for its lease. Under a string key, so that a gin.Context can pass it on.
type leaseContext struct {
	context.Context
	lease *Lease
}

func (c *leaseContext) Value(key any) any {
	if key == any(leasekey.Key) {
		return c.lease
	}
	return c.Context.Value(key)
}

// leaseIn returns the innermost lease in ctx, released or not.
func leaseIn(ctx context.Context) *Lease {
	l, _ := ctx.Value(leasekey.Key).(*Lease)
	return l
}

// LeaseFrom returns the innermost lease in ctx that has not been released.
func LeaseFrom(ctx context.Context) (*Lease, bool) {
	for l := leaseIn(ctx); l != nil; l = l.outer {
		if !l.isReleased() {
			return l, true
		}
	}
	return nil, false
}

// FencingToken returns the fencing token of the innermost lease in ctx that has not been released, as
// [Lease.FencingToken] does, or ErrNoLease.
func FencingToken(ctx context.Context) (uint64, error) {
	l, ok := LeaseFrom(ctx)
	if !ok {
		return 0, ErrNoLease
	}
	return l.FencingToken(ctx)
}

// Key returns the key.
func (l *Lease) Key() string { return l.key }

// Context returns the context that work under the lease must use. It ends with the context that the verb was given, when
// the lease is released, and with cause ErrLeaseLost, ErrMaxHold or ErrClosed when it is lost.
func (l *Lease) Context() context.Context { return l.ctx }

// Deadline returns until when the lease may be trusted unless it is renewed: shortly before the key can expire in the
// store. Renewals move it.
func (l *Lease) Deadline() time.Time { return l.root().grant.deadline() }

// Err returns nil while the lease is held, the cause (ErrLeaseLost, ErrMaxHold, ErrClosed) once it is lost, and ErrNoLease
// once it is released. It looks at the clocks itself, so it is right before the context has noticed.
func (l *Lease) Err() error {
	l.mu.Lock()
	released, cause := l.released, l.cause
	l.mu.Unlock()
	switch {
	case released:
		return ErrNoLease
	case cause != nil:
		return cause
	}
	root := l.root()
	return root.grant.err(root)
}

// FencingToken returns the number to pass to the guarded resource, which must refuse a number lower than one that it has
// seen: it is higher than that of any turn before on this key. All calls in one turn get the same number. Without
// [WithFencing] the first call makes a round trip. It returns ErrLeaseLost once the lease is lost or released, and
// ErrUnavailable, or ctx's error, if the number could not be fetched.
func (l *Lease) FencingToken(ctx context.Context) (uint64, error) {
	if err := l.Err(); err != nil {
		if errors.Is(err, ErrNoLease) {
			return 0, fmt.Errorf("%w: it was released", ErrLeaseLost)
		}
		return 0, err
	}
	root := l.root()
	return root.grant.token(ctx, root)
}

// Release ends the lease: it waits for re-entrant calls that run inside it, and then frees the key or hands it to the
// next caller in line. The request has its own time limit, at most 1 s: ctx lends its values, and need not be alive.
//
// It returns nil if the lease was held to the end; ErrLeaseLost, ErrMaxHold or ErrClosed if it was lost; ErrUnavailable if
// the store did not confirm, and then the key ends with its TTL. Calling it again returns the same. From inside one of
// those re-entrant calls, by its ctx, it would wait for itself: then it does nothing and returns ErrInvalidOption.
func (l *Lease) Release(ctx context.Context) error {
	for in := leaseIn(ctx); in != nil; in = in.outer {
		if in.runsInside(l) && !in.isReleased() {
			return fmt.Errorf("%w: Release inside a call that the lease must outlive", ErrInvalidOption)
		}
	}
	return l.release(ctx, false)
}

// run runs fn under the lease and releases it, whatever fn does.
func (l *Lease) run(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	panicked := true // or Goexit
	defer func() {
		lost := l.release(ctx, panicked)
		if !panicked {
			err = withLoss(err, lost)
		}
	}()
	err = fn(l.ctx)
	panicked = false
	return err
}

// withLoss is what Do returns: fn's error, and the loss of the lease if there was one. A release without an answer is
// no loss: fn had the key to its end.
func withLoss(err, lost error) error {
	switch {
	case lost == nil, errors.Is(lost, ErrUnavailable), errors.Is(err, lost):
		return err
	case err == nil:
		return lost
	}
	return fmt.Errorf("%w: %w", lost, err)
}

func (l *Lease) release(ctx context.Context, panicked bool) error {
	l.once.Do(func() {
		l.awaitInner()
		if l.within != nil {
			l.releaseErr = l.leaveOuter()
		} else {
			l.releaseErr = l.endTurn(ctx)
		}
		l.observeEnd(panicked)
	})
	return l.releaseErr
}

// endTurn ends the turn and passes on floor and grant, or gives the key back.
func (l *Lease) endTurn(ctx context.Context) error {
	c, gr := &l.call, l.grant
	defer c.leave()
	cause := gr.endTurn(l)
	l.cancel(nil)
	switch {
	case cause == nil:
		if c.gate.handOver(&c.waiter, gr) {
			return nil
		}
		return c.giveBack(ctx, gr)
	case errors.Is(cause, ErrClosed): // the key is left to its TTL
	default:
		c.discard(gr) // the function has returned, so whatever is left of the key can go
	}
	return cause
}

// giveBack releases the key and passes the floor on.
func (c *call) giveBack(ctx context.Context, gr *grant) error {
	f := c.guard.family
	defer c.pass()
	if !gr.finish() {
		f.locker.Abandon(gr.claim) // lost since the turn ended: nobody's loss any more
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit(gr.terms.ttl))
	defer cancel()
	if !gr.join(ctx) {
		err := fmt.Errorf("%w: a renewal hangs", ErrUnavailable)
		c.logRelease(ctx, err)
		f.locker.Abandon(gr.claim)
		return err
	}
	gr.claim.Waits, gr.claim.Wanted = c.gate.beginRelease(gr)
	freed, err := f.locker.Release(ctx, gr.claim)
	switch {
	case err == nil:
		keep := c.gate.freed(freed, gr.claim.Queued, c.guard.backoff, time.Now())
		f.keep(c.gate, keep)
	case !errors.Is(err, ErrLeaseLost):
		gr.claim.Unclear = true
		c.logRelease(ctx, err)
	}
	if gr.claim.Unclear {
		f.locker.Abandon(gr.claim)
	}
	return err
}

// lost ends the context of l and of the calls inside it.
func (l *Lease) lost(cause error) {
	at := l.endedBy(time.Now())
	l.mu.Lock()
	if l.cause != nil || l.released {
		l.mu.Unlock()
		return
	}
	l.cause, l.lostAt = cause, at
	opened, inner := l.cancel != nil, l.inner
	if l.gone != nil {
		close(l.gone)
	}
	l.mu.Unlock()

	if opened { // else open does it
		l.end(cause)
	}
	if inner != nil {
		inner.lost(cause)
	}
}

// end ends the context of a lost lease and says so.
func (l *Lease) end(cause error) {
	l.cancel(cause)
	l.observeLoss(cause)
}

// drop gives up what l has on the way to its function, after a panic of an observer or a locker.
func (l *Lease) drop() {
	c := &l.call
	switch {
	case l.inside:
		<-l.within.slot
	case c.gate == nil:
	case l.number > 0: // the turn has begun
		defer c.leave()
		defer c.pass()
		_ = l.grant.endTurn(l)
		c.discard(l.grant)
	default:
		defer c.leave()
		if !c.gate.quit(&c.waiter) {
			c.pass()
		}
		if c.claim != nil {
			c.guard.family.locker.Abandon(c.claim)
		}
	}
}

func (l *Lease) isReleased() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}
