package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/leasekey"
	"github.com/go-lockguard/guard/internal/turns"
)

// Lease is one turn of one caller on its key. Work that needs the key runs
// under [Lease.Context], and the caller releases the lease when it is done. Its
// methods are safe for concurrent use.
//
// Invariant: turn is &own, or within's turn if within is set. cause does not
// change once it is set, and is not set after released. released and settled
// imply releasing, and follow each other in this order. A lease outlives those
// inside it: released waits for the slot of stile, unless the lease is lost.
type Lease struct {
	guard  *Guard
	key    string
	outer  *Lease      // the innermost lease of the verb's ctx, or of DoAll's keys before
	within *Lease      // the lease that the verb runs inside, on the same key; nil: the turn is its own
	turn   *turns.Turn // shared with all that run inside; nil before it is acquired
	own    turns.Turn  // the memory of the turn that is its own

	hold   hold // what observers and log are told
	ctx    context.Context
	cancel context.CancelCauseFunc // DoAll's leases share one
	stile  turnstile               // of the calls that run inside

	called atomic.Bool // a function runs under it, so it will end
	failed atomic.Bool // the function has returned an error or panicked

	mu         sync.Mutex    // guards what follows; nothing is locked inside
	cause      error         // why the lease was lost
	lostAt     time.Time     // when it was lost, or when it could not be trusted any longer if that was before
	releasing  bool          // there has been a first Release
	released   bool          // that Release is past the re-entrant calls
	settled    bool          // that Release has its result
	releaseErr error         // the result
	over       chan struct{} // closed when the result is there; made by the second Release
}

// acquire is the way of every verb to its lease. g is resolved. DoAll gives the
// lease that it acquired before, if there is one, and the cancel function that
// its leases share. Other verbs give nil for both.
func (g *Guard) acquire(
	ctx context.Context, key string, p turns.Patience, before *Lease, cancel context.CancelCauseFunc,
) (*Lease, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	outer := leaseIn(ctx)
	if outer != nil {
		ctx = leasekey.Ending(ctx, outer.Context()) // a gin.Context never ends by itself
	}
	for {
		l := &Lease{
			guard: g, key: key, outer: cmp.Or(before, outer),
			within: findLease(outer, g.family, key), cancel: cancel,
		}
		err := l.acquire(ctx, p)
		switch {
		case err == nil:
			return l, nil
		case !errors.Is(err, errReleased): // the outer lease ended while we waited to run inside it: again
			return nil, err
		}
	}
}

// acquire gets l its turn and opens it. A panic of an observer on the way gives
// up what l has by then.
func (l *Lease) acquire(ctx context.Context, p turns.Patience) error {
	settled := false
	defer func() {
		if !settled {
			l.drop()
		}
	}()
	g, info := l.guard, WaitInfo{Name: l.guard.set.Name, Key: l.key, Reentry: l.within != nil}
	waitCtx := g.observers.waitStart(ctx, info)
	r := l.wait(waitCtx, p)
	g.observers.waitEnd(waitCtx, info, r)
	l.hint(waitCtx, r)
	if r.Err == nil {
		l.open(ctx, info)
	}
	settled = true
	return r.Err
}

// wait gets l its turn: that of the lease it runs inside, or one of its own.
func (l *Lease) wait(ctx context.Context, p turns.Patience) (r WaitResult) {
	start := time.Now()
	t := &l.own
	if l.within != nil {
		r.Handoff, r.Err = true, l.within.admit(ctx, p)
		t = l.within.turn
	} else {
		refusal, err := t.Take(ctx, l.guard.family.engine, l.key, &l.guard.set, events{l.guard}, p)
		r.Err = refused(ctx, l.key, waitedSince(start, p), refusal, err)
		r.Attempts, r.Handoff, r.Blocker = t.Tried()
	}
	r.Waited = time.Since(start)
	if r.Err == nil {
		l.turn = t
	}
	return r
}

// open gives a lease that has its turn its context.
func (l *Lease) open(ctx context.Context, info WaitInfo) {
	l.hold.start(ctx, &l.guard.observers, info)
	ctx = l.hold.ctx
	if l.cancel == nil {
		ctx, l.cancel = context.WithCancelCause(ctx)
	}
	l.ctx = &leaseContext{Context: ctx, lease: l}
	var cause error // lost before we came here
	if l.within != nil {
		cause = l.within.contain(l)
	} else {
		cause = l.turn.Attach(occupant{l}, l.hold.began)
	}
	if cause != nil {
		l.lost(cause)
	}
}

// drop gives up what l has on its way to its function.
func (l *Lease) drop() {
	switch {
	case l.turn == nil:
	case l.within != nil:
		l.within.stile.leave()
	default:
		l.turn.Drop()
	}
}

// Key returns the key.
func (l *Lease) Key() string { return l.key }

// Context returns the context that work under the lease must use. It ends with
// the context that the verb was given, when the lease is released, and with
// cause ErrLeaseLost, ErrMaxHold or ErrClosed when it is lost.
func (l *Lease) Context() context.Context { return l.ctx }

// Deadline returns until when the lease may be trusted unless it is renewed:
// shortly before the key can expire in the store. Renewals move it. In a lease
// that another process handed over it is near at first, at most a second away,
// until the first renewal.
func (l *Lease) Deadline() time.Time { return l.turn.Deadline() }

// Err returns nil while the lease is held, the cause (ErrLeaseLost, ErrMaxHold,
// ErrClosed) once it is lost, and ErrNoLease once it is released. It looks at
// the clocks itself, so it is right before the context has noticed.
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
	return l.turn.Err()
}

// FencingToken returns the number to pass to the guarded resource, which must
// refuse a number lower than one that it has seen: it is higher than that of
// any turn before on this key. All calls in one turn get the same number.
// Without [WithFencing] the first call makes a round trip. It returns
// ErrLeaseLost once the lease is lost or released, and ErrUnavailable, or ctx's
// error, if the number could not be fetched.
func (l *Lease) FencingToken(ctx context.Context) (uint64, error) {
	if err := l.Err(); err != nil {
		if errors.Is(err, ErrNoLease) {
			return 0, fmt.Errorf("%w: it was released", ErrLeaseLost)
		}
		return 0, err
	}
	return l.turn.Token(ctx)
}

// occupant is a lease as the engine sees it: who is told what becomes of the
// turn.
type occupant struct{ lease *Lease }

// Lost implements [turns.Occupant].
func (o occupant) Lost(cause error) { o.lease.lost(cause) }

// HalfTime implements [turns.Occupant].
func (o occupant) HalfTime() { o.lease.tellHalf() }

// lost ends the context of l and of the calls inside it, and says so.
func (l *Lease) lost(cause error) {
	at := l.turn.EndedBy(time.Now())
	l.mu.Lock()
	if l.cause != nil || l.released {
		l.mu.Unlock()
		return
	}
	l.cause, l.lostAt = cause, at
	l.mu.Unlock()

	l.cancel(cause)
	if inner := l.stile.close(); inner != nil {
		inner.lost(cause)
	}
	l.tellLoss(cause)
}

// tellLoss tells observers and log of the loss of l, once. Of a lease inside
// another, the log hears by the outer one.
func (l *Lease) tellLoss(cause error) {
	if l.hold.lost(cause) && l.within == nil {
		l.guard.logLost(l.hold.ctx, l.key, cause)
	}
}

func (l *Lease) lossTime() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lostAt
}

func (l *Lease) isReleased() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}
