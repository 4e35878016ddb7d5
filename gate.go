package guard

import (
	"sync"
	"time"
)

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
	fault error         // ErrUnavailable, if the last of them got no answer
	poke  chan struct{} // wakes the contender from its pause; buffered; made by the first pause

	woken  bool      // a wake-up came, and no try was sent since
	owed   bool      // a wake-up came, and the store has not given a clear answer since: it must be used, or passed on
	wanted bool      // other instances are known to wait for the key
	yield  time.Time // until then a try leaves a free key to the instance that was just woken
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

// pass ends w's floor, if w still has it, and gives it to the next in line to contend. It reports whether a wake-up has
// come that nobody here is left to use.
func (gt *gate) pass(w *waiter) (unused bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.floor != w {
		return false
	}
	gt.give(nil)
	unused = gt.owed && gt.floor == nil
	if unused {
		gt.woken, gt.owed = false, false
	}
	return unused
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
	gt.grant, gt.tries, gt.held, gt.fault, gt.owed = gr, 0, nil, nil, false
	gt.next = time.Time{} // a pause that a wake-up cut short is not for whoever contends next
	if gt.wanted {
		gr.shorten(gt.line.length)
	}
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

// refusal describes why a call that does not wait any longer goes without the key: a HeldError, or the ErrUnavailable of
// the last try here.
func (gt *gate) refusal(now time.Time) error {
	gt.mu.Lock()
	fault := gt.fault
	gt.mu.Unlock()
	if fault != nil {
		return fault
	}
	return gt.holder(now)
}

// holder describes who has the key, as far as it is known here.
func (gt *gate) holder(now time.Time) *HeldError {
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
