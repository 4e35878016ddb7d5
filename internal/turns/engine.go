package turns

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/timelimit"
	"github.com/go-lockguard/guard/locker"
)

// An Engine is one locker, with all that this process wants and holds in it.
// Its methods are safe for concurrent use.
type Engine struct {
	locker  locker.Locker
	gates   gates
	renewer renewer
	limits  *timelimit.Wheel // of requests
	errands errands
	outages outages

	// waits counts the keys that this process waits for. They are the gates
	// whose contender has paused.
	waits    atomic.Int64
	instance atomic.Pointer[string] // the locker's id; nil before the first turn

	calls calls // that wait or hold
}

// Open opens l and returns its engine. It sends nothing. Its errors are those
// of the locker.
func Open(l locker.Locker) (*Engine, error) {
	e := &Engine{
		locker: l,
		calls:  calls{closing: make(chan struct{}), idle: make(chan struct{})},
		limits: timelimit.New(),
	}
	e.gates = gates{engine: e, seed: maphash.MakeSeed()}
	e.renewer.engine = e
	if n, ok := l.(locker.Noder); ok {
		e.outages.node = n.Node
	}
	if err := l.Open(waker{e}); err != nil {
		return nil, err
	}
	return e, nil
}

// Enter counts a call that may hold a key, or use the locker, until its Leave.
// It returns false once the engine is closing. The caller must not call Leave
// then.
func (e *Engine) Enter() bool { return e.calls.enter() }

// Leave ends what Enter began.
func (e *Engine) Leave() { e.calls.leave() }

// Closing returns a channel that is closed when Close begins.
func (e *Engine) Closing() <-chan struct{} { return e.calls.closing }

// bounded returns a context with ctx's values that ends after d, for one
// request.
func (e *Engine) bounded(ctx context.Context, d time.Duration) context.Context {
	return e.limits.Within(ctx, d)
}

// tell notes how a request for gt's key went that was no try, and tells events
// if that is news. The request belongs to o, or to ctx if o is nil.
func (e *Engine) tell(ctx context.Context, events Events, o Occupant, gt *gate, err error) {
	if n, is := e.outages.note(gt.name, heard(err), err); is {
		events.Outage(ctx, o, gt.key, n)
	}
}

// Close turns new calls away, waits for the others until ctx ends, and then
// closes the locker. A second Close waits again.
//
// If ctx ends first, the grants of the calls are lost. Their cause Is
// locker.ErrClosed and locker.ErrLeaseLost, and their keys are left to the TTL.
func (e *Engine) Close(ctx context.Context) error {
	e.calls.shut()
	var err error
	select {
	case <-e.calls.idle:
	default:
		select {
		case <-e.calls.idle:
		case <-ctx.Done():
			e.loseAll()
			err = fmt.Errorf("guard: closed before every function had returned: %w", context.Cause(ctx))
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
		}
	}
	e.loseCooling(ctx)
	if !e.errands.wait(ctx) && err == nil {
		err = fmt.Errorf("guard: closed before a renewal or an observer had ended: %w", context.Cause(ctx))
	}
	e.depart()
	if closeErr := e.locker.Close(ctx); err == nil {
		err = closeErr
	}
	return err
}

// loseAll ends every turn that is on.
func (e *Engine) loseAll() {
	for _, gt := range e.gates.all() {
		for _, gr := range gt.grants() {
			gr.lose(errClosedUnder)
		}
	}
}

// waker is what the locker calls to tell its engine.
type waker struct{ engine *Engine }

// Granted implements [locker.Waker].
func (w waker) Granted(key, owner string, o locker.Offer) bool {
	gt := w.engine.gates.find(key)
	return gt != nil && gt.granted(owner, o)
}

// Wanted implements [locker.Waker].
func (w waker) Wanted(key string) {
	if gt := w.engine.gates.find(key); gt != nil {
		gt.want()
	}
}

// Wake implements [locker.Waker].
func (w waker) Wake(key string) {
	if gt := w.engine.gates.find(key); gt != nil {
		gt.wake(time.Now())
	}
}

// WakeAll implements [locker.Waker]. The tries of very many calls are spread,
// because they would all run into their limits if they came at once.
func (w waker) WakeAll() {
	w.engine.outages.hope()
	now, all := time.Now(), w.engine.gates.all()
	spread := wakeSpread(w.engine.waits.Load())
	for i, gt := range all {
		gt.wake(now.Add(spread * time.Duration(i) / time.Duration(len(all))))
	}
}

// Revoked implements [locker.Revoker]. It renews at once, to find out.
func (w waker) Revoked(key, owner string) {
	gt := w.engine.gates.find(key)
	if gt == nil {
		return
	}
	for _, gr := range gt.grants() {
		if gr.bid.claim.Owner == owner {
			gr.doubt()
		}
	}
}
