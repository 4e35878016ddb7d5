package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/ctxkey"
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

	bare bool    // no lease at all: its function runs unguarded, see WithFailOpen
	all  *leases // those of its DoAll; nil outside of one

	fn struct {
		called atomic.Bool // a function runs under the lease, so it will end
		failed atomic.Bool // the function has returned an error or panicked
	}
	ending ending
}

// nesting is where a lease is among others. The release waits for the slot of
// entrance, unless the lease is lost. Nothing runs inside a bare lease.
type nesting struct {
	enclosing *Lease   // the innermost lease of the verb's ctx, or DoAll's lease before this one
	outer     *Lease   // the lease on the same key that the verb runs inside; nil if the turn is its own
	entrance  entrance // for the calls that run inside
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

// A context carries its innermost lease. A chain leads from it to the leases
// around it. A verb inside finds them here.

// leaseContext is a context that carries a lease. The key of the value is a
// string, because a gin.Context passes on string keys only.
type leaseContext struct {
	context.Context
	lease *Lease
}

func (c *leaseContext) Value(key any) any {
	switch {
	case key == any(ctxkey.Key):
		return c.lease
	case c.lease.bare && key == any(ctxkey.Unguarded):
		return true
	}
	return c.Context.Value(key)
}

// leases are those of one DoAll. They share a cancel function, because a
// context for each key would make the work quadratic, and a signal.
type leases struct {
	guard  *Guard
	keys   int                     // how many leases there are to be
	group  *turns.Group            // takes the turns; nil: each lease takes its own
	cancel context.CancelCauseFunc // of all
	signal turns.Signal            // of all

	held []*Lease // that are not bare
	last *Lease   // the one acquired before the next
}

// several reports whether there is more than one.
func (ls *leases) several() bool { return ls != nil && ls.keys > 1 }

// turns returns the group, if there is one.
func (ls *leases) turns() *turns.Group {
	if ls == nil {
		return nil
	}
	return ls.group
}

// interest is what a lease wants to hear of those who wait for its key.
type interest struct {
	signal  atomic.Pointer[turns.Signal] // what Wanted has asked for; that of all from the start
	listens atomic.Bool                  // it leads, and hears requests of AskLeader
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
	switch end := l.ending.known(); {
	case end.phase >= released:
		return ErrNoLease
	case end.cause != nil:
		return end.cause
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

// errNoTokens says why a shared lease has no token.
var errNoTokens = invalid("a shared lease has no fencing token")

// runs reports whether a function runs under l, so that l will end.
func (l *Lease) runs() bool { return l.fn.called.Load() }

func (l *Lease) isReleased() bool { return l.ending.known().phase >= released }

// limit returns how many may have the key with l. A lease that runs inside
// another one has what that one has.
func (l *Lease) limit() int {
	for l.outer != nil {
		l = l.outer
	}
	return l.guard.set.Limit
}

// lose ends the contexts of l and of the calls inside it. It tells observers
// and log.
func (l *Lease) lose(cause error) {
	if !l.ending.markLost(cause, l.turn.EndedBy(time.Now())) {
		return
	}
	l.cancel(cause)
	if inner := l.entrance.close(); inner != nil {
		inner.lose(cause)
	}
	l.tellLoss(cause)
}

// tellLoss tells observers and log of the loss of l, once. The loss of a lease
// inside another one is not logged, because the loss of the outer one is.
func (l *Lease) tellLoss(cause error) {
	if l.hold.told.Swap(true) {
		return
	}
	for _, o := range l.guard.observers {
		o.LeaseLost(l.hold.ctx, l.hold.info, cause)
	}
	if l.outer == nil {
		l.guard.logLost(l.hold.ctx, l.key, cause)
	}
}

// noteRelease notes that the release of l is not confirmed.
func (l *Lease) noteRelease(ctx context.Context, err error) {
	l.guard.logRelease(ctx, l.key, err)
	l.turn.NoteRelease(ctx, err)
}

// occupant is a lease as a [turns.Occupant]. The engine tells it what becomes
// of the turn.
type occupant struct{ lease *Lease }

func (o occupant) Lost(cause error) { o.lease.lose(cause) }

func (o occupant) HalfTime() {
	l := o.lease
	l.guard.logHalf(l.hold.ctx, l.key, time.Since(l.hold.began))
}

// events is a guard as [turns.Events]. It hears what happens to its turns,
// for the observers and the log.
type events struct{ guard *Guard }

func (e events) Traceparent(ctx context.Context) string { return e.guard.observers.traceparent(ctx) }

func (e events) Renewed(o turns.Occupant, key string, r turns.Renewal) {
	info := e.guard.info(key, e.guard.set.Limit)
	ctx := context.Background() //nolint:forbidigo // a batch belongs to no caller
	if o, ok := o.(occupant); ok {
		ctx, info = o.lease.hold.ctx, o.lease.hold.info
	}
	for _, observer := range e.guard.observers {
		observer.Renewed(ctx, info, RenewResult(r))
	}
}

func (e events) Outage(ctx context.Context, o turns.Occupant, key string, n turns.News) {
	if o, ok := o.(occupant); ok {
		ctx = o.lease.hold.ctx
	}
	e.guard.logOutage(ctx, key, n)
}

func (e events) Unconfirmed(o turns.Occupant, err error) {
	if o, ok := o.(occupant); ok {
		o.lease.noteRelease(o.lease.hold.ctx, err)
	}
}

// An ending is how far a lease has come to its end: whether it was lost, and
// how its release went. It does no I/O. Its methods are safe for concurrent
// use.
//
// Invariant: phase only grows. cause does not change once it is set, and is not
// set once the lease is released. err is nil until the phase is settled.
type ending struct {
	mu   sync.Mutex // guards the fields below; nothing is locked inside
	fate fate
	over chan struct{} // closed when the result is there; the second Release makes it
}

// A fate is what is known of the end of a lease.
type fate struct {
	phase  phase
	cause  error     // why the lease was lost
	lostAt time.Time // when it was lost, or could no longer be trusted if that was earlier
	err    error     // the result of the release
}

type phase uint8

const (
	held      phase = iota // or lost
	releasing              // there has been a first Release
	released               // the first Release is past the re-entrant calls
	settled                // the first Release has its result
)

// known returns what is known by now.
func (e *ending) known() fate {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fate
}

// markLost records that the lease was lost. It reports false if it has been
// lost or released before.
func (e *ending) markLost(cause error, at time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fate.cause != nil || e.fate.phase >= released {
		return false
	}
	e.fate.cause, e.fate.lostAt = cause, at
	return true
}

// begin returns nil to the first caller that releases the lease. It returns a
// channel to later callers, which is closed when the result is there.
func (e *ending) begin() (over <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fate.phase == held {
		e.fate.phase = releasing
		return nil
	}
	if e.over == nil {
		e.over = make(chan struct{})
		if e.fate.phase == settled {
			close(e.over)
		}
	}
	return e.over
}

// release records that the lease is released. It returns why the lease was
// lost, if it was.
func (e *ending) release() (cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fate.phase = released
	return e.fate.cause
}

// settle records the result of the release.
func (e *ending) settle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fate.err, e.fate.phase = err, settled
	if e.over != nil {
		close(e.over)
	}
}
