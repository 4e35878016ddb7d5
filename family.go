package guard

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/keyenc"
	"github.com/go-lockguard/guard/internal/timelimit"
	"github.com/go-lockguard/guard/locker"
)

// A family is what a Guard and all its copies share: the locker, the gates, the renewals, and how all of it ends. It is
// what the locker tells things, a [locker.Waker].
type family struct {
	locker  locker.Locker
	gates   gates
	renewer renewer
	limits  *timelimit.Wheel // of requests
	errands errands
	outage  outage
	hints   hints

	waits atomic.Int64 // keys that this process waits for: gates whose contender has paused

	instance atomic.Pointer[string] // the locker's id; nil before the first lease

	closeOnce sync.Once
	closing   chan struct{} // closed by the first Close
	calls     atomic.Int64  // calls that wait or hold; shut is added once by Close
	idle      chan struct{} // closed by idleOnce when shut and no call is left
	idleOnce  sync.Once
}

// shut marks calls as closed to new ones: more than there can be calls.
const shut = 1 << 62

func newFamily(l locker.Locker) *family {
	f := &family{
		locker:  l,
		gates:   gates{seed: maphash.MakeSeed()},
		closing: make(chan struct{}),
		idle:    make(chan struct{}),
		limits:  timelimit.New(),
	}
	f.renewer.family = f
	return f
}

// isClosing reports whether Close was called.
func (f *family) isClosing() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

// enter counts a call that may hold a key until its leave. It reports false once the family is closing.
func (f *family) enter() bool {
	if f.calls.Add(1) < shut {
		return true
	}
	f.leave()
	return false
}

func (f *family) leave() {
	if f.calls.Add(-1) == shut {
		f.closedIdle()
	}
}

// closedIdle tells close that no call is left. A call that enter turned away can come here after the last real one has.
func (f *family) closedIdle() {
	f.idleOnce.Do(func() { close(f.idle) })
}

// close is Guard.Close.
func (f *family) close(ctx context.Context) error {
	f.closeOnce.Do(func() {
		close(f.closing)
		f.calls.Add(shut)
		f.enter() // turned away, and leaves: if it was the last, the family is idle
	})
	var err error
	select {
	case <-f.idle:
	default:
		select {
		case <-f.idle:
		case <-ctx.Done():
			f.loseAll()
			err = fmt.Errorf("guard: closed before every function had returned: %w", context.Cause(ctx))
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
		}
	}
	f.letGo(ctx)
	if !f.errands.wait(ctx) && err == nil {
		err = fmt.Errorf("guard: closed before a renewal or an observer had ended: %w", context.Cause(ctx))
	}
	f.depart()
	if closeErr := f.locker.Close(ctx); err == nil {
		err = closeErr
	}
	return err
}

// errands are the goroutines of a family's own: renewals under way, and timers with something to do. Each is begun by an
// errand or under a grant that has not ended, so none begins after wait, which comes when all grants have ended.
type errands struct {
	mu      sync.Mutex // guards what follows; nothing is locked inside
	running int
	over    chan struct{} // made by wait, closed by the last
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

// wait returns when none is left, or with false when ctx ends.
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

// loseAll ends the context of every function that runs.
func (f *family) loseAll() {
	for _, gt := range f.gates.all() {
		if gr := gt.holding(); gr != nil {
			gr.lose(errClosedUnder)
		}
	}
}

// linger keeps gt for a moment even if nobody uses it: who comes back at once must find what it knows of others.
func (f *family) linger(gt *gate) {
	f.gates.linger(gt)
	time.AfterFunc(lingers, func() { f.gates.leave(gt) })
}

// Granted implements [locker.Waker].
func (f *family) Granted(key, owner string, o locker.Offer) bool {
	gt := f.gates.find(key)
	return gt != nil && gt.granted(owner, o)
}

// Wanted implements [locker.Waker].
func (f *family) Wanted(key string) {
	if gt := f.gates.find(key); gt != nil {
		gt.want()
	}
}

// Wake implements [locker.Waker].
func (f *family) Wake(key string) {
	if gt := f.gates.find(key); gt != nil {
		gt.wake()
	}
}

// WakeAll implements [locker.Waker].
func (f *family) WakeAll() {
	for _, gt := range f.gates.all() {
		gt.wake()
	}
}

// gates finds the gate of a key: an entry for each key that somebody in this process wants or holds, no more. Two keys
// never share a gate.
type gates struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu    sync.Mutex       // guards gates and the refs of each; held for a map access, with nothing locked inside
	gates map[string]*gate // by name
}

func (s *gates) shard(name string) *shard {
	return &s.shards[maphash.String(s.seed, name)%uint64(len(s.shards))]
}

// enter returns the gate of key and keeps it alive until leave.
func (s *gates) enter(key string) *gate {
	name := keyenc.Plain(key)
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	gt := sh.gates[name]
	if gt == nil {
		gt = &gate{key: key, name: name}
		if sh.gates == nil {
			sh.gates = make(map[string]*gate)
		}
		sh.gates[name] = gt
	}
	gt.refs++
	return gt
}

// linger keeps gt alive for one more leave.
func (s *gates) linger(gt *gate) {
	sh := s.shard(gt.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	gt.refs++
}

// leave undoes one enter.
func (s *gates) leave(gt *gate) {
	sh := s.shard(gt.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if gt.refs--; gt.refs == 0 {
		delete(sh.gates, gt.name)
	}
}

// find returns the gate of the key with the given name in the store, or nil if nobody here wants it.
func (s *gates) find(name string) *gate {
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.gates[name]
}

// all returns the gates of this moment.
func (s *gates) all() []*gate {
	var all []*gate
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, gt := range sh.gates {
			all = append(all, gt)
		}
		sh.mu.Unlock()
	}
	return all
}
