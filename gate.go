package guard

import (
	"hash/maphash"
	"sync"
	"time"
)

// gates finds the gate of a key: an entry for each key that somebody in this process wants or holds, no more. Two keys
// never share a gate.
type gates struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu    sync.Mutex // guards gates and the refs of each; held for a map access
	gates map[string]*gate
}

func (s *gates) shard(key string) *shard {
	return &s.shards[maphash.String(s.seed, key)%uint64(len(s.shards))]
}

// enter returns the gate of key and keeps it alive until leave.
func (s *gates) enter(key string) *gate {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	gt := sh.gates[key]
	if gt == nil {
		gt = &gate{key: key}
		if sh.gates == nil {
			sh.gates = make(map[string]*gate)
		}
		sh.gates[key] = gt
	}
	gt.refs++
	return gt
}

// leave undoes one enter.
func (s *gates) leave(gt *gate) {
	sh := s.shard(gt.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if gt.refs--; gt.refs == 0 {
		delete(sh.gates, gt.key)
	}
}

// find returns the gate of key, or nil if nobody here wants it.
func (s *gates) find(key string) *gate {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.gates[key]
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

// A gate is where the calls of this process that want one key meet. One of them has the floor: it contends for the key in
// the store, or has its turn on the grant, or releases it. The others stand in line in order of arrival, and whoever has
// the floor passes it to the first of them. So 10,000 calls that wait cost the store what one does.
type gate struct {
	key  string
	refs int // guarded by the shard's mutex

	mu    sync.Mutex // guards what follows; held for a few instructions, never across I/O, a callback or a blocking send
	floor *waiter    // who has the floor; nil: nobody, and the line is empty
	grant *grant     // what the floor holds; nil while it contends or releases
	line  line
	pace  pace
	tries int           // tries in a row that found the key held or the store unavailable
	next  time.Time     // when the next try is due
	held  *HeldError    // what the last of them saw, if it was a holder
	seen  time.Time     // when
	poke  chan struct{} // wakes the contender from its pause; buffered; made by the first pause
}

// A waiter is one call at its gate.
type waiter struct {
	terms  terms
	joined time.Time
	floor  chan *grant // carries the floor, once: with a grant to have a turn on, or nil to contend; buffered

	prev, next *waiter // guarded by the gate's mutex, like inLine
	inLine     bool
}

// terms are what a grant was acquired with. A turn on it is open to calls that ask for the same.
type terms struct {
	ttl       time.Duration
	noRenewal bool
	fencing   bool
}

// join gives w the floor if nobody has it, and reports true. Else it puts w in line, unless refuse, which sees the
// number of those in line and the expected wait, returns an error.
func (gt *gate) join(w *waiter, refuse func(ahead int, expected time.Duration) error) (bool, error) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.floor == nil {
		gt.floor = w
		return true, nil
	}
	if err := refuse(gt.line.length, gt.pace.expect(gt.line.length+1)); err != nil {
		return false, err
	}
	w.floor = make(chan *grant, 1)
	gt.line.push(w)
	return false, nil
}

// rejoin is join for a call that had the floor and lost it with its grant: it goes first again.
func (gt *gate) rejoin(w *waiter) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.floor == nil || gt.floor == w {
		gt.floor, gt.grant = w, nil
		return true
	}
	w.floor = make(chan *grant, 1)
	gt.line.pushFront(w)
	return false
}

// quit takes w out of the line. If it reports false, w was given the floor and must pass it on.
func (gt *gate) quit(w *waiter) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if !w.inLine {
		return false
	}
	gt.line.remove(w)
	return true
}

// pass ends w's floor, if w still has it, and gives it to the next in line to contend.
func (gt *gate) pass(w *waiter) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.floor == w {
		gt.give(nil)
	}
}

// handOver gives the next in line w's floor together with its grant, if somebody waits on the same terms and the grant
// allows another turn. If it reports false, nothing has changed.
func (gt *gate) handOver(w *waiter, gr *grant) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	next := gt.line.first
	if gt.floor != w || next == nil || next.terms != gr.terms || !gr.mayGoOn() {
		return false
	}
	gt.give(gr)
	return true
}

// give hands the floor to the first in line; gt.mu is held.
func (gt *gate) give(gr *grant) {
	next := gt.line.first
	gt.floor, gt.grant = next, gr
	if next != nil {
		gt.line.remove(next)
		next.floor <- gr // buffered, and sent once: never blocks
	}
}

// hold notes that w, which has the floor, acquired gr.
func (gt *gate) hold(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.grant, gt.tries, gt.held = gr, 0, nil
}

// revoke takes the floor from whoever holds gr, which is lost, and gives it to the next in line to contend.
func (gt *gate) revoke(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.grant == gr {
		gt.give(nil)
	}
}

// holding returns the grant that this process has of the key, or nil.
func (gt *gate) holding() *grant {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.grant
}

// started notes that w's turn begins.
func (gt *gate) started(w *waiter, now time.Time) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.pace.turn(now, w.joined)
}

// missed plans the next try after one that found the key held (by h) or got no answer (h is nil): after the pause, or
// when the holder's lease ends if that is sooner.
func (gt *gate) missed(h *HeldError, b backoff, now time.Time) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	pause := b.pause(gt.tries)
	gt.tries++
	gt.held, gt.seen = h, now
	if h != nil && h.Remaining > 0 {
		pause = min(pause, h.Remaining)
	}
	gt.next = now.Add(pause)
}

// standBack plans the next try after a release while other processes wait: between their polls they could never win
// against one that is on the spot, so the next contender here sits the pause out first.
func (gt *gate) standBack(until time.Time) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.next = until
}

// due returns how long the contender must pause before its next try.
func (gt *gate) due(now time.Time) time.Duration {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.next.Sub(now)
}

// heldTries returns how many tries in a row have found the key held, counting from 1 if the last did.
func (gt *gate) heldTries() int {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.held == nil {
		return 0
	}
	return gt.tries
}

// pokes returns what ends the contender's pause early.
func (gt *gate) pokes() <-chan struct{} {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.poke == nil {
		gt.poke = make(chan struct{}, 1)
	}
	return gt.poke
}

// wake ends the contender's pause, and reports whether anybody here waits for the key.
func (gt *gate) wake() bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.grant != nil || gt.floor == nil {
		return false
	}
	if gt.poke != nil {
		select {
		case gt.poke <- struct{}{}:
		default: // a wake-up is already on its way
		}
	}
	return true
}

// refusal describes why a call that does not wait any longer goes without the key.
func (gt *gate) refusal(now time.Time) *HeldError {
	gt.mu.Lock()
	gr, held, seen := gt.grant, gt.held, gt.seen
	expected := gt.pace.expect(gt.line.length + 1)
	gt.mu.Unlock()
	e := &HeldError{Key: gt.key, expected: expected}
	switch {
	case gr != nil:
		e.Remaining, e.Holder = max(0, time.Until(gr.expiry())), gr.claim.Holder
	case held != nil:
		e.Remaining, e.Holder = max(0, held.Remaining-now.Sub(seen)), held.Holder
	}
	return e
}
