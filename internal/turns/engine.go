package turns

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/timelimit"
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

// IsClosing reports whether Close was called.
func (e *Engine) IsClosing() bool { return e.calls.isShut() }

// States returns the keys that calls of this process hold and wait for, by
// their names. States names at most maxWaits waits of each key. It takes the
// lock of one gate at a time for a moment.
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
	if e.lingerStats.cells.Load() == nil {
		return nil
	}
	now, all := time.Now(), make(map[string]int)
	for _, gt := range e.gates.all() {
		for _, h := range gt.state(now, 0).Holds {
			if h.Idle {
				all[h.Name]++
			}
		}
	}
	return all
}

// releaseIdle begins to release all idle keys of gts.
func (e *Engine) releaseIdle(gts []*gate) {
	if !e.can.Lingers {
		return
	}
	for _, gt := range gts {
		gt.missed()
	}
}

// Close turns new calls away, releases the idle keys, and waits for the others
// until ctx ends. It removes at once what is left of claims that were given up,
// and closes the locker. A second Close waits again.
//
// If ctx ends first, the grants of the calls are lost. Their cause Is
// locker.ErrClosed and locker.ErrLeaseLost, and their keys are left to the TTL.
func (e *Engine) Close(ctx context.Context) error {
	e.calls.shut()
	e.releaseIdle(e.gates.all())
	e.idleReleasers.wait(ctx)
	var err error
	if !await(ctx, e.calls.idle) {
		e.lose(ctx)
		err = fmt.Errorf("guard: closed before every function had returned: %w", context.Cause(ctx))
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), limits.Apart(time.Second))
		defer cancel()
	}
	e.lose(ctx) // those that cool down when no call is left
	if !e.background.wait(ctx) && err == nil {
		err = fmt.Errorf("guard: closed before a renewal or an observer had ended: %w", context.Cause(ctx))
	}
	e.depart()
	return cmp.Or(err, e.janitor.Close(ctx), e.store.Close(ctx))
}

// lose ends all grants, and leaves their keys to the TTL. lose waits for their
// renewals in flight until ctx ends.
func (e *Engine) lose(ctx context.Context) {
	for _, gt := range e.gates.all() {
		for _, gr := range gt.grants() {
			gr.lose(errClosedUnder)
			gr.awaitRenewal(ctx)
		}
	}
}

// waker is the [locker.Waker] of an engine.
type waker struct{ *Engine }

func (w waker) Granted(key, owner string, o locker.Offer) {
	if gt := w.gates.find(key); gt == nil || !gt.granted(owner, o) {
		w.Orphaned(key, owner)
	}
}

// Orphaned implements [locker.Waker] (law 3).
func (w waker) Orphaned(key, owner string) {
	w.cleanUp(&bid{claim: locker.Claim{Key: key, Owner: owner}})
}

func (w waker) Wanted(key string) {
	if gt := w.gates.find(key); gt != nil {
		gt.want()
	}
}

func (w waker) Wake(key string) {
	if gt := w.gates.find(key); gt != nil {
		gt.wake(time.Now())
	}
}

// WakeAll implements [locker.Waker]. The tries of very many calls are spread,
// because they would all run into their limits if they came at once.
func (w waker) WakeAll() {
	w.outages.probeSoon()
	now, all := time.Now(), w.gates.all()
	n, spread := len(all), wakeSpread(w.paused.Load())
	first := int(limits.Jitter(time.Duration(n + 1))) // other processes wake their callers in another order
	for i, gt := range all {
		gt.wake(now.Add(spread * time.Duration((first+i)%n) / time.Duration(n)))
	}
	w.releaseIdle(all)
}

// Revoked implements [locker.Waker]. Revoked renews at once, to find out.
func (w waker) Revoked(key, owner string) {
	if gt := w.gates.find(key); gt != nil {
		for _, gr := range gt.grants() {
			if gr.bid.claim.Owner == owner {
				gr.doubt()
			}
		}
	}
}

func (w waker) Recorded(key, owner, value string) {
	if gt := w.gates.find(key); gt != nil {
		gt.told(owner, value)
	}
}

// A common is what the gates, turns and grants of an engine share. That is the
// store, with the limits of its requests and what is known of its answers, and
// what this process does beside its calls. Its methods are safe for concurrent
// use.
type common struct {
	store       locker.Locker
	can         locker.Capabilities // of the store
	limits      *timelimit.Wheel    // of requests
	janitor     *lockerkit.Janitor  // removes what is left of claims that were given up
	outages     outages
	lingerStats lingerStats

	// paused counts the keys that this process waits for: the gates whose
	// contender has paused.
	paused   atomic.Int64
	instance atomic.Pointer[string] // the store's id; nil before the first turn

	calls         calls // that wait or hold
	background    background
	renewer       renewer
	idleReleasers idleReleasers
}

// begin makes c ready for use with l.
func (c *common) begin(l locker.Locker) {
	c.store, c.can, c.limits = l, l.Capabilities(), timelimit.New()
	c.janitor = lockerkit.NewJanitor(l)
	c.calls = calls{closing: make(chan struct{}), idle: make(chan struct{})}
	c.renewer.common = c
	c.lingerStats.begin(maphash.MakeSeed())
	c.outages.node = l.Node
}

// tell notes how a request for gt's key went that was no try, and tells events
// if that is news. The request belongs to o, or to ctx if o is nil.
func (c *common) tell(ctx context.Context, events Events, o Occupant, gt *gate, err error) {
	if n, is := c.outages.note(gt.name, heard(err), err); is {
		events.Outage(ctx, o, gt.key, n)
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
func (c *common) arrive(instance string) {
	if c.instance.Load() == nil && instance != "" {
		first := instance // a pointer to the parameter would cost an allocation each time
		c.instance.Store(&first)
		instances.Store(first, nil)
	}
}

// depart undoes arrive.
func (c *common) depart() {
	if instance := c.instance.Load(); instance != nil {
		instances.Delete(*instance)
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

func (c *calls) isShut() bool { return c.count.Load() >= shutCount }

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
		c.count.Add(shutCount)
		close(c.closing)
		c.enter() // turned away, and leaves: if it was the last, calls are idle
	})
}

// background is the goroutines of the engine itself: renewals in flight, and
// timers with something to do. Each begins under another of them or under a
// grant that has not ended. All grants have ended before wait, so none begins
// after it.
type background struct {
	mu      sync.Mutex // guards what follows; nothing is locked inside
	running int
	over    chan struct{} // made by wait, closed by the last
}

func (e *background) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running++
}

func (e *background) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running--; e.running == 0 && e.over != nil {
		close(e.over)
		e.over = nil
	}
}

// wait returns true when none is left, or false when ctx ends.
func (e *background) wait(ctx context.Context) bool {
	e.mu.Lock()
	if e.running > 0 && e.over == nil {
		e.over = make(chan struct{})
	}
	over := e.over
	e.mu.Unlock()
	return over == nil || await(ctx, over)
}

// await blocks until done is closed, or returns false when ctx ends first.
func await(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	// A process that waits for manyWaits keys or more lets its claims rest. A
	// process that waits for fewer notices nothing, whatever the backoff.
	manyWaits = 300

	// looksPerSecond is the number of looks per second of all claims that rest,
	// if each comes as late as it may. On average there are a third more.
	looksPerSecond = 1000

	// wakesPerSecond is the number of looks per second when they must all look
	// again.
	wakesPerSecond = 4000
)

// restFor returns how long a claim would rest in a process that waits for that
// many keys.
func restFor(waits int64) time.Duration {
	if waits < manyWaits {
		return 0
	}
	return min(time.Duration(waits)*time.Second/looksPerSecond+locker.LookEvery, locker.MaxRest)
}

// wakeSpread returns the time over which a process that waits for that many
// keys spreads its looks when messages may have been missed.
func wakeSpread(waits int64) time.Duration {
	if waits < manyWaits {
		return 0
	}
	return time.Duration(waits) * time.Second / wakesPerSecond
}
