package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A tenure is one slice: after so many turns, or so long, the key is really released, so that other processes get it.
const (
	sliceTurns = FenceBlock
	sliceTime  = 100 * time.Millisecond
)

// A grant is what this process holds of a key: an owner id in the store, and how long it may be trusted. Calls take
// turns on it. It ends by finish, when its tenure is over, or by lose, when it cannot be trusted any longer; after
// either nobody gets another turn on it.
type grant struct {
	family *family
	config *config // of the guard that acquired it, for observers and logs
	gate   *gate
	claim  *Claim
	terms  terms
	since  time.Time

	mu       sync.Mutex // guards what follows; held for a few instructions, never across I/O or a callback
	trust    trust
	turn     *Lease      // whose turn it is; nil between turns
	turns    int         // how many there were, with this one
	lastTurn int         // the tenure ends after it
	holdEnd  time.Time   // when the turn has lasted MaxHold; zero: no limit
	renewAt  time.Time   // zero: never
	timer    *time.Timer // fires at the next of trust's end, holdEnd and renewAt; stopped when the grant ends
	renewing chan struct{}
	cause    error // why it ended; nil while it has not

	block     uint64        // first of the fencing tokens reserved; 0: none
	blockTurn int           // the turn that it belongs to
	fetching  chan struct{} // closed when the fetch of a block in flight is answered
}

var errFinished = errors.New("guard: the grant was released")

// newGrant is what a try that was sent at the given time has won for c on g's terms.
func newGrant(g *Guard, gt *gate, c *Claim, sent time.Time, token uint64) *grant {
	gr := &grant{
		family: g.family, config: &g.config, gate: gt, claim: c, terms: g.terms(), since: time.Now(),
		trust: trustFrom(sent, c.TTL), lastTurn: sliceTurns, block: token, blockTurn: 1,
	}
	if !gr.terms.noRenewal {
		gr.renewAt = renewalTime(sent, c.TTL)
	}
	return gr
}

// begin starts l's turn, if enough of the grant is left for one.
func (gr *grant) begin(l *Lease, maxHold time.Duration) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	if gr.cause != nil || gr.trust.left(now) < minRemaining(gr.terms.ttl) {
		return false
	}
	gr.turn = l
	gr.turns++
	l.number = gr.turns
	gr.holdEnd = time.Time{}
	if maxHold > 0 {
		gr.holdEnd = now.Add(maxHold)
	}
	gr.arm(now)
	return true
}

// endTurn ends l's turn and returns why the grant was lost in it, or nil.
func (gr *grant) endTurn(l *Lease) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.turn == l {
		gr.turn, gr.holdEnd = nil, time.Time{}
	}
	return gr.cause
}

// mayGoOn reports whether the tenure allows another turn now.
func (gr *grant) mayGoOn() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	return gr.cause == nil && gr.turns < gr.lastTurn && now.Sub(gr.since) < sliceTime &&
		gr.trust.left(now) >= minRemaining(gr.terms.ttl)
}

// shorten lets the tenure end after the turns of those who wait now.
func (gr *grant) shorten(waiting int) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.lastTurn = min(gr.lastTurn, max(gr.turns, 1)+waiting)
}

// arm sets the timer to whatever is due next; gr.mu is held.
func (gr *grant) arm(now time.Time) {
	next := gr.trust.left(now)
	if !gr.holdEnd.IsZero() {
		next = min(next, gr.holdEnd.Sub(now))
	}
	if !gr.renewAt.IsZero() && gr.renewing == nil {
		next = min(next, gr.renewAt.Sub(now))
	}
	if gr.timer == nil {
		gr.timer = time.AfterFunc(next, gr.tick)
	} else {
		gr.timer.Reset(next)
	}
}

// tick does what is due. It runs in the timer's goroutine and starts no I/O itself, so that nothing delays the deadline.
func (gr *grant) tick() {
	now := time.Now()
	if cause := gr.due(now); cause != nil {
		gr.lose(cause)
	}
}

// due hands a renewal that is due to the renewer, or returns why the grant is lost by now.
func (gr *grant) due(now time.Time) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	switch {
	case gr.cause != nil:
		return nil // ended while the timer fired
	case gr.trust.left(now) <= 0:
		return ErrLeaseLost
	case !gr.holdEnd.IsZero() && !now.Before(gr.holdEnd):
		return ErrMaxHold
	case !gr.renewAt.IsZero() && gr.renewing == nil && !now.Before(gr.renewAt):
		gr.renewing = make(chan struct{})
		gr.family.renewer.add(gr)
	}
	gr.arm(now)
	return nil
}

// renewLimit bounds one try to renew: there must be time for another.
func (gr *grant) renewLimit(now time.Time) time.Duration {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return max(min(gr.terms.ttl/6, gr.trust.left(now)/2), time.Millisecond)
}

// renewed takes the answer to a renewal that was sent at the given time.
func (gr *grant) renewed(sent time.Time, err error) {
	lost := gr.noteRenewal(sent, err)
	if lost {
		gr.lose(ErrLeaseLost)
	}
}

func (gr *grant) noteRenewal(sent time.Time, err error) (lost bool) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	close(gr.renewing)
	gr.renewing = nil
	if gr.cause != nil {
		return false
	}
	now := time.Now()
	switch {
	case err == nil:
		gr.trust = gr.trust.later(trustFrom(sent, gr.terms.ttl))
		gr.renewAt = renewalTime(sent, gr.terms.ttl)
	case errors.Is(err, ErrLeaseLost):
		return true
	default: // the deadline decides, until then try again
		gr.renewAt = now.Add(rand.N(gr.terms.ttl/20) + time.Millisecond)
	}
	gr.arm(now)
	return false
}

// lose ends a grant that cannot be trusted any longer: the turn's context ends with cause, and the floor goes on, for
// the function may not notice for long. What is left in the store is freed when the function has returned.
func (gr *grant) lose(cause error) {
	gr.mu.Lock()
	if gr.cause != nil {
		gr.mu.Unlock()
		return
	}
	gr.cause = cause
	gr.stopTimer()
	turn := gr.turn
	gr.mu.Unlock()

	gr.gate.revoke(gr)
	if turn != nil {
		turn.lost(cause)
	}
}

// finish ends a grant whose tenure is over, and reports whether it was still good.
func (gr *grant) finish() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	good := gr.cause == nil
	if good {
		gr.cause = errFinished
	}
	gr.stopTimer()
	return good
}

// join waits for a renewal in flight, so that after it nothing of ours but the release is on its way to the store. It
// reports false if ctx ends first. The grant has ended, so no other renewal begins.
func (gr *grant) join(ctx context.Context) bool {
	gr.mu.Lock()
	renewing := gr.renewing
	gr.mu.Unlock()
	if renewing == nil || gr.family.renewer.forget(gr) {
		return true
	}
	select {
	case <-renewing:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopTimer keeps tick from firing again; gr.mu is held.
func (gr *grant) stopTimer() {
	if gr.timer != nil {
		gr.timer.Stop()
	}
}

// err returns why l's turn cannot be trusted, or nil.
func (gr *grant) err(l *Lease) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.errLocked(l)
}

func (gr *grant) errLocked(l *Lease) error {
	switch {
	case gr.turn != l:
		return ErrLeaseLost
	case gr.cause != nil:
		return gr.cause
	case gr.trust.left(time.Now()) <= 0:
		return ErrLeaseLost // the timer has yet to fire, or the machine slept
	}
	return nil
}

// deadline is until when the grant is trusted.
func (gr *grant) deadline() time.Time {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.trust.mono
}

// expiry is about when the store drops the key unless it is renewed.
func (gr *grant) expiry() time.Time {
	return gr.deadline().Add(gr.terms.ttl - trusted(gr.terms.ttl))
}
