package turns

import (
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
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
	wardens wardens
	outages outages
	habits  habits

	listener locker.Listener // the locker; nil: no key may be idle

	// waits counts the keys that this process waits for: the gates whose
	// contender has paused.
	waits    atomic.Int64
	instance atomic.Pointer[string] // the locker's id; nil before the first turn

	calls calls // that wait or hold
}

// Open opens l and returns its engine. Open sends nothing. Its errors are those
// of the locker.
func Open(l locker.Locker) (*Engine, error) {
	e := &Engine{
		locker: l,
		calls:  calls{closing: make(chan struct{}), idle: make(chan struct{})},
		limits: timelimit.New(),
	}
	e.gates = gates{engine: e, seed: maphash.MakeSeed()}
	e.renewer.engine, e.wardens.engine = e, e
	e.habits.begin(e.gates.seed)
	e.listener, _ = l.(locker.Listener)
	if n, ok := l.(locker.Noder); ok {
		e.outages.node = n.Node
	}
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

// NewGroup returns the group for keys, in sorted order. The caller takes those
// that are inside without the group. NewGroup returns nil if the keys must be
// taken one after the other.
func (e *Engine) NewGroup(keys []string, inside func(key string) bool, s *Settings, ev Events) *Group {
	several, ok := e.locker.(locker.Several)
	if !ok || len(keys) < 2 {
		return nil
	}
	return &Group{engine: e, several: several, set: s, events: ev, inside: inside, keys: keys}
}

// releasers is how many releases of one call are under way at a time.
const releasers = 64

// ReleaseKeys is [Turn.ReleaseKey] for several turns with the same TTL, in one
// round trip if the locker can. ReleaseKeys blocks until all are answered, or
// for the limit of one release. ReleaseKeys returns the error of each.
func (e *Engine) ReleaseKeys(ctx context.Context, ts []*Turn) []error {
	errs := make([]error, len(ts))
	if len(ts) == 0 {
		return errs
	}
	ctx = e.bounded(ctx, limits.Release(ts[0].set.TTL))
	if several, ok := e.locker.(locker.Several); ok && len(ts) > 1 && !ts[0].grant.crowded() {
		releaseTogether(ctx, several, ts, errs)
		return errs
	}
	todo := make(chan int, len(ts))
	for i := range ts {
		todo <- i
	}
	close(todo)
	var wg sync.WaitGroup
	for range min(len(ts), releasers) {
		wg.Go(func() { // ends when nothing is left to do
			for i := range todo {
				errs[i] = ts[i].releaseKey(ctx)
			}
		})
	}
	wg.Wait()
	return errs
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

// loseCooling ends the grants that cool down when no call is left, and leaves
// their keys to the TTL.
func (e *Engine) loseCooling(ctx context.Context) {
	for _, gt := range e.gates.all() {
		for _, gr := range gt.grants() {
			gr.lose(errClosedUnder)
			gr.awaitRenewal(ctx)
		}
	}
}

// A claim tells people these facts of this process.
var (
	pid      = os.Getpid()
	hostname = sync.OnceValue(func() string {
		name, err := os.Hostname()
		if err != nil {
			return "" // only people read it
		}
		return name
	})
)

// instances are the ids of the lockers of this process, from the first turn to
// Close.
var instances sync.Map

// arrive remembers the id of the locker, which the first claim of the locker
// tells.
func (e *Engine) arrive(instance string) {
	if e.instance.Load() == nil && instance != "" {
		first := instance // a pointer to the parameter would cost an allocation each time
		e.instance.Store(&first)
		instances.Store(first, nil)
	}
}

// depart undoes arrive.
func (e *Engine) depart() {
	if instance := e.instance.Load(); instance != nil {
		instances.Delete(*instance)
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
	w.engine.releaseIdle(all)
}

// Revoked implements [locker.Revoker]. Revoked renews at once, to find out.
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

// Recorded implements [locker.Joiner].
func (w waker) Recorded(key, owner, value string) {
	if gt := w.engine.gates.find(key); gt != nil {
		gt.told(owner, value)
	}
}

// calls counts the calls of an engine, which wait or hold, and turns new ones
// away once it is shut. Both channels must be made. Its methods are safe for
// concurrent use.
type calls struct {
	closing  chan struct{} // closed by shut
	idle     chan struct{} // closed when it is shut and no call is left
	count    atomic.Int64  // of the calls; shut adds shutCount
	shutOnce sync.Once
	idleOnce sync.Once
}

// shutCount is larger than any possible number of calls, so a count from it on
// means shut.
const shutCount = 1 << 62

// enter counts a call until its leave. enter returns false if calls are shut,
// and the caller must not call leave then.
func (c *calls) enter() bool {
	if c.count.Add(1) < shutCount {
		return true
	}
	c.leave()
	return false
}

// leave ends what enter began. A call that enter turned away may come here
// after the last real one.
func (c *calls) leave() {
	if c.count.Add(-1) == shutCount {
		c.idleOnce.Do(func() { close(c.idle) })
	}
}

// shut turns new calls away. shut does not wait for the others.
func (c *calls) shut() {
	c.shutOnce.Do(func() {
		close(c.closing)
		c.count.Add(shutCount)
		c.enter() // turned away, and leaves: if it was the last, calls are idle
	})
}

// errands are the engine's own goroutines: renewals in flight, and timers with
// something to do. Each begins under another errand or under a grant that has
// not ended. All grants have ended before wait, so none begins after it.
type errands struct {
	mu      sync.Mutex // guards what follows; nothing is locked inside
	running int
	over    chan struct{} // made by wait, closed by the last errand
}

func (e *errands) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running++
}

func (e *errands) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running--; e.running == 0 && e.over != nil {
		close(e.over)
		e.over = nil
	}
}

// wait returns true when no errand is left, or false when ctx ends.
func (e *errands) wait(ctx context.Context) bool {
	e.mu.Lock()
	if e.running > 0 && e.over == nil {
		e.over = make(chan struct{})
	}
	over := e.over
	e.mu.Unlock()
	if over == nil {
		return true
	}
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}
