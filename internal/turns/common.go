package turns

import (
	"context"
	"hash/maphash"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/timelimit"
	"github.com/go-lockguard/guard/locker"
)

// A common is what the gates, turns and grants of an engine share: the store
// with the bounds of its requests and what is known of its answers, and what
// this process does beside its calls. Its methods are safe for concurrent use.
type common struct {
	store    locker.Locker
	listener locker.Listener  // the store; nil: no key may be idle
	limits   *timelimit.Wheel // of requests
	outages  outages
	habits   habits

	// paused counts the keys that this process waits for: the gates whose
	// contender has paused.
	paused   atomic.Int64
	instance atomic.Pointer[string] // the store's id; nil before the first turn

	calls   calls // that wait or hold
	errands errands
	renewer renewer
	wardens wardens
}

// begin makes c ready for use with l.
func (c *common) begin(l locker.Locker) {
	c.store, c.limits = l, timelimit.New()
	c.calls = calls{closing: make(chan struct{}), idle: make(chan struct{})}
	c.renewer.common = c
	c.habits.begin(maphash.MakeSeed())
	c.listener, _ = l.(locker.Listener)
	if n, ok := l.(locker.Noder); ok {
		c.outages.node = n.Node
	}
}

// bounded returns a context with ctx's values that ends after d, for one
// request.
func (c *common) bounded(ctx context.Context, d time.Duration) context.Context {
	return c.limits.Within(ctx, d)
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

// hears reports whether the messages of other processes are sure to arrive.
func (c *common) hears() bool { return c.listener != nil && c.listener.Listens() }

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

// wakeSpread returns the time over which a process that waits for that many keys
// spreads its looks when messages may have been missed.
func wakeSpread(waits int64) time.Duration {
	if waits < manyWaits {
		return 0
	}
	return time.Duration(waits) * time.Second / wakesPerSecond
}
