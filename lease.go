package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/leasekey"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// Lease is one turn of one caller on its key. Work that needs the key runs
// under [Lease.Context]. The caller releases the lease when it is done. A lease
// outlives the leases inside it. Its methods are safe for concurrent use.
type Lease struct {
	guard *Guard
	key   string

	nesting
	tenancy
	hold hold // the hold as observers and log see it
	scope
	interest
	keeping *keeping // of a call of Once; else nil

	bare bool // no lease at all: its function runs unguarded, see WithFailOpen
	// several says that it is one of several leases of a DoAll.
	several bool

	fn struct {
		called atomic.Bool // a function runs under the lease, so it will end
		failed atomic.Bool // the function has returned an error or panicked
	}
	fate fate
}

// nesting is where a lease is among others. The release waits for the slot of
// stile, unless the lease is lost. Nothing runs inside a bare lease.
type nesting struct {
	enclosing *Lease    // the innermost lease of the verb's ctx, or DoAll's lease before this one
	outer     *Lease    // the lease on the same key that the verb runs inside; nil if the turn is its own
	stile     turnstile // for the calls that run inside
}

// tenancy is the turn of a lease.
//
// Invariant of a lease that is not bare: turn is &own, or outer's turn if outer
// is set, or one that a group has taken. turn is nil until the lease is
// acquired, and does not change afterwards. A bare lease has no turn and is
// never released.
type tenancy struct {
	turn *turns.Turn // shared with all leases inside; nil before it is acquired
	own  turns.Turn  // memory for a turn of its own
}

// scope is the context of a lease. ctx and cancel are nil until the lease is
// acquired, and do not change afterwards. The leases of a DoAll share a cancel
// from the start.
type scope struct {
	ctx    context.Context
	under  leaseContext // memory for ctx
	cancel context.CancelCauseFunc
}

// interest is what a lease wants to hear of those who wait for its key.
type interest struct {
	// wish is what Wanted has asked for. The leases of a DoAll share one from
	// the start.
	wish    atomic.Pointer[turns.Wish]
	listens atomic.Bool // it leads, and hears requests of AskLeader
}

// with is what the leases of one DoAll have in common. The zero with is that of
// every other verb.
type with struct {
	group  *turns.Group            // takes the turns; nil: each lease takes its own
	before *Lease                  // the lease acquired before this one, if there is one
	cancel context.CancelCauseFunc // shared by all
	wish   *turns.Wish             // shared by all; nil: there are no others
}

// acquire acquires a lease for every verb. g is resolved.
func (g *Guard) acquire(ctx context.Context, key string, p turns.Patience, w with) (*Lease, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNilContext
	}
	enclosing := leaseIn(ctx)
	if enclosing != nil {
		ctx = leasekey.Ending(ctx, enclosing.Context()) // a gin.Context never ends by itself
	}
	for {
		l := &Lease{
			guard: g, key: key, scope: scope{cancel: w.cancel}, several: w.wish != nil,
			nesting: nesting{enclosing: cmp.Or(w.before, enclosing), outer: findLease(enclosing, g.family, key)},
		}
		l.wish.Store(w.wish)
		if err := l.outer.bars(g.set.Limit); err != nil {
			return nil, err
		}
		err := l.acquire(ctx, p, w.group)
		switch {
		case err == nil:
			return l, nil
		// If the outer lease ended while we waited to run inside it, try again.
		case !errors.Is(err, errReleased):
			return nil, err
		}
	}
}

// acquire gets a turn for l and opens l. If an observer panics on the way, it
// gives the turn up.
func (l *Lease) acquire(ctx context.Context, p turns.Patience, group *turns.Group) error {
	settled := false
	defer func() {
		if !settled {
			l.drop()
		}
	}()
	g, info := l.guard, l.info()
	info.Try = p.Once || !p.Until.After(p.Start)
	waitCtx := g.observers.waitStart(ctx, info)
	r := l.wait(waitCtx, p, group)
	g.observers.waitEnd(waitCtx, info, r)
	l.hint(waitCtx, p, r)
	switch {
	case r.Replayed || r.Joined:
		r.Err = turns.ErrRecorded
	case r.Err == nil:
		l.open(ctx, info)
	case r.Unguarded:
		l.runBare(ctx, r.Err)
		r.Err = nil
	}
	settled = true
	return r.Err
}

// info describes l for observers.
func (l *Lease) info() WaitInfo {
	limit := l.limit()
	return WaitInfo{
		Name: l.guard.set.Name, Key: l.key, Reentry: l.outer != nil,
		Mode: modeOf(limit), Permits: permitsOf(limit), MaxHold: l.guard.set.MaxHold,
	}
}

// runBare makes the context of a function that runs without a lease, because of
// err.
func (l *Lease) runBare(ctx context.Context, err error) {
	l.bare, l.ctx = true, &leaseContext{Context: ctx, lease: l}
	if l.own.TellUnguarded() {
		l.guard.logUnguarded(ctx, l.key, err)
	}
}

// wait gets a turn for l. That is the turn of the lease that l runs inside, or
// one of its own.
func (l *Lease) wait(ctx context.Context, p turns.Patience, group *turns.Group) (r WaitResult) {
	start := time.Now()
	t := &l.own
	if l.outer != nil {
		r.Handoff, r.Err = true, l.outer.admit(ctx, p)
		t = l.outer.turn
	} else {
		ahead, at, refusal, err := group.Take(ctx, l.key, p)
		if ahead != nil {
			t = ahead
		} else {
			refusal, err = t.Take(ctx, l.guard.family.engine, l.key, &l.guard.set, events{l.guard}, p)
		}
		if errors.Is(err, turns.ErrRecorded) {
			var record string
			record, r.Joined = p.Recall.Found()
			r.Replayed, err = !r.Joined, nil
			if len(l.guard.observers) > 0 {
				r.Origin = originIn(record).traceparent()
			}
		}
		r.Err = refused(ctx, at, waitedSince(start, p), refusal, err)
		var silent bool
		r.Attempts, r.Handoff, r.Blocker, silent = t.Tried()
		r.Idle, r.Unguarded = t.TookIdle(), l.guard.failOpen && silent
	}
	r.Waited = time.Since(start)
	if r.Err == nil && !r.Replayed && !r.Joined {
		l.turn = t
	}
	return r
}

// open makes the context of l, which has its turn.
func (l *Lease) open(ctx context.Context, info WaitInfo) {
	l.hold.start(ctx, &l.guard.observers, info)
	ctx = l.hold.ctx
	if l.cancel == nil {
		ctx, l.cancel = context.WithCancelCause(ctx)
	}
	l.under = leaseContext{Context: ctx, lease: l}
	l.ctx = &l.under
	var cause error // set if the lease was lost before we came here
	if l.outer != nil {
		cause = l.outer.contain(l)
	} else {
		cause = l.turn.Attach(occupant{l}, l.hold.began)
	}
	if cause != nil {
		l.lost(cause)
	}
}

// drop gives up the turn, or the place inside another lease, that l has so far.
func (l *Lease) drop() {
	switch {
	case l.turn == nil:
	case l.outer != nil:
		l.outer.stile.leave()
	default:
		l.turn.Drop()
	}
}

// Key returns the key.
func (l *Lease) Key() string { return l.key }

// Context returns the context that work under the lease must use. It ends when
// the context of the verb ends or the lease is released. It ends with cause
// ErrLeaseLost, ErrMaxHold or ErrClosed when the lease is lost.
func (l *Lease) Context() context.Context { return l.ctx }

// Deadline returns the time until which the lease may be trusted unless it is
// renewed. That is shortly before the key can expire in the store. Renewals
// move it. After a hand-over from another process, and with [WithLinger], it is
// nearer until the second renewal, at most a third of the TTL or a second away,
// whichever is longer.
func (l *Lease) Deadline() time.Time { return l.turn.Deadline() }

// Err returns nil while the lease is held. Once the lease is lost, Err returns
// the cause, which is ErrLeaseLost, ErrMaxHold or ErrClosed. Once it is
// released, Err returns ErrNoLease. Err looks at the clocks itself, so it is
// right even before the context has ended.
func (l *Lease) Err() error {
	released, cause := l.fate.state()
	switch {
	case released:
		return ErrNoLease
	case cause != nil:
		return cause
	}
	return l.turn.Err()
}

// FencingToken returns the number to pass to the guarded resource. The resource
// must refuse a number lower than one that it has seen. The number is higher
// than that of any turn before on this key. All calls in one turn get the same
// number.
//
// Without [WithFencing] the first call makes a round trip. FencingToken returns
// ErrLeaseLost once the lease is lost or released. It returns ErrUnavailable or
// ctx's error if the number could not be fetched. It returns ErrInvalidOption
// if ctx is nil, and from a shared lease, which has no number.
func (l *Lease) FencingToken(ctx context.Context) (uint64, error) {
	if ctx == nil {
		return 0, errNilContext
	}
	if err := l.Err(); err != nil {
		if errors.Is(err, ErrNoLease) {
			return 0, fmt.Errorf("%w: it was released", ErrLeaseLost)
		}
		return 0, err
	}
	if l.limit() == locker.NoLimit {
		return 0, errNoTokens
	}
	return l.turn.Token(ctx)
}

// occupant is a lease as the engine sees it. The engine tells it what becomes
// of the turn.
type occupant struct{ lease *Lease }

// Lost implements [turns.Occupant].
func (o occupant) Lost(cause error) { o.lease.lost(cause) }

// HalfTime implements [turns.Occupant].
func (o occupant) HalfTime() { o.lease.tellHalf() }

// lost ends the contexts of l and of the calls inside it. It tells observers
// and log.
func (l *Lease) lost(cause error) {
	if !l.fate.lose(cause, l.turn.EndedBy(time.Now())) {
		return
	}
	l.cancel(cause)
	if inner := l.stile.close(); inner != nil {
		inner.lost(cause)
	}
	l.tellLoss(cause)
}

// tellLoss tells observers and log of the loss of l, once. The loss of a lease
// inside another one is not logged, because the loss of the outer one is.
func (l *Lease) tellLoss(cause error) {
	if l.hold.lost(cause) && l.outer == nil {
		l.guard.logLost(l.hold.ctx, l.key, cause)
	}
}

func (l *Lease) isReleased() bool {
	released, _ := l.fate.state()
	return released
}
