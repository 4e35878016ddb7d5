package turns

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// An Engine is one locker, with all that this process wants and holds in it.
// Its methods are safe for concurrent use.
type Engine struct {
	common
	gates gates
}

// Open opens l and returns its engine. Open sends nothing. Its errors are those
// of the locker.
func Open(l locker.Locker) (*Engine, error) {
	e := &Engine{}
	e.begin(l)
	e.gates = gates{common: &e.common, seed: maphash.MakeSeed()}
	if err := l.Open(waker{e}); err != nil {
		return nil, err
	}
	return e, nil
}

// Enter counts a call that may hold a key, or use the locker, until its Leave.
// Enter returns false once the engine is closing. The caller must not call
// Leave then.
func (e *Engine) Enter() bool { return e.calls.enter() }

// Leave ends what Enter began.
func (e *Engine) Leave() { e.calls.leave() }

// Closing returns a channel that is closed when Close begins.
func (e *Engine) Closing() <-chan struct{} { return e.calls.closing }

// States returns the keys that calls of this process hold and wait for, in no
// order. States names at most maxWaits waits of each key. It takes the lock of
// one gate at a time for a moment.
func (e *Engine) States(now time.Time, maxWaits int) []State {
	var all []State
	for _, gt := range e.gates.all() {
		if s := gt.state(now, maxWaits); len(s.Holds) > 0 || s.Waiting > 0 {
			all = append(all, s)
		}
	}
	return all
}

// Idle returns how many keys are idle, by the name of the guard that took each.
// Idle takes the lock of one gate at a time for a moment, and none before the
// first key that may linger.
func (e *Engine) Idle() map[string]int {
	if e.habits.cells.Load() == nil {
		return nil
	}
	all := make(map[string]int)
	for _, gt := range e.gates.all() {
		for _, h := range gt.state(time.Now(), 0).Holds {
			if h.Idle {
				all[h.Name]++
			}
		}
	}
	return all
}

// releaseIdle begins to release all idle keys of gts.
func (e *Engine) releaseIdle(gts []*gate) {
	if e.listener == nil {
		return
	}
	for _, gt := range gts {
		gt.missed()
	}
}

// Close turns new calls away, releases the idle keys, waits for the others
// until ctx ends, and then closes the locker. A second Close waits again.
//
// If ctx ends first, the grants of the calls are lost. Their cause Is
// locker.ErrClosed and locker.ErrLeaseLost, and their keys are left to the TTL.
func (e *Engine) Close(ctx context.Context) error {
	e.calls.shut()
	e.releaseIdle(e.gates.all())
	e.wardens.wait(ctx)
	var err error
	select {
	case <-e.calls.idle:
	default:
		select {
		case <-e.calls.idle:
		case <-ctx.Done():
			e.lose(ctx)
			err = fmt.Errorf("guard: closed before every function had returned: %w", context.Cause(ctx))
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
		}
	}
	e.lose(ctx) // those that cool down when no call is left
	if !e.errands.wait(ctx) && err == nil {
		err = fmt.Errorf("guard: closed before a renewal or an observer had ended: %w", context.Cause(ctx))
	}
	e.depart()
	if closeErr := e.store.Close(ctx); err == nil {
		err = closeErr
	}
	return err
}

// lose ends all grants, and leaves their keys to the TTL. lose waits for their
// renewals in flight until ctx ends.
func (e *Engine) lose(ctx context.Context) {
	for _, gt := range e.gates.all() {
		gt.lose(ctx)
	}
}

// waker is what the locker calls to tell its engine.
type waker struct{ *Engine }

// Granted implements [locker.Waker].
func (w waker) Granted(key, owner string, o locker.Offer) bool {
	gt := w.gates.find(key)
	return gt != nil && gt.granted(owner, o)
}

// Wanted implements [locker.Waker].
func (w waker) Wanted(key string) {
	if gt := w.gates.find(key); gt != nil {
		gt.want()
	}
}

// Wake implements [locker.Waker].
func (w waker) Wake(key string) {
	if gt := w.gates.find(key); gt != nil {
		gt.wake(time.Now())
	}
}

// WakeAll implements [locker.Waker]. The tries of very many calls are spread,
// because they would all run into their limits if they came at once.
func (w waker) WakeAll() {
	w.outages.hope()
	now, all := time.Now(), w.gates.all()
	spread := wakeSpread(w.paused.Load())
	for i, gt := range all {
		gt.wake(now.Add(spread * time.Duration(i) / time.Duration(len(all))))
	}
	w.releaseIdle(all)
}

// Revoked implements [locker.Revoker]. Revoked renews at once, to find out.
func (w waker) Revoked(key, owner string) {
	if gt := w.gates.find(key); gt != nil {
		gt.revoked(owner)
	}
}

// Recorded implements [locker.Joiner].
func (w waker) Recorded(key, owner, value string) {
	if gt := w.gates.find(key); gt != nil {
		gt.told(owner, value)
	}
}
