package guard

import (
	"time"

	"github.com/go-lockguard/guard/internal/lockorder"
	"github.com/go-lockguard/guard/locker"
)

// A gate is where the calls of this process that want one key meet. One of them has the floor: it contends for the key in
// the store, or has its turn on the grant, or releases it. The others stand in line in order of arrival, and whoever has
// the floor passes it to the first of them. So 10,000 calls that wait cost the store what one does.
//
// Its methods take the mutex for a few instructions, and never across I/O or a callback. See package lockorder for what may be
// locked inside.
type gate struct {
	key  string // as the callers gave it
	name string // as the store knows it
	refs int    // guarded by the shard's mutex

	mu    lockorder.Gate // guards what follows
	floor *turn          // who has the floor; nil: nobody, and the line is empty
	grant *grant         // what the floor holds; nil while it contends or releases
	line  line
	pace  pace
	lost  []*turn // whose functions run on without the key

	// How the floor contends.
	bid   *bid          // nil before the first try, and once the key is ours
	place locker.Place  // in the store's queue, which the next bid inherits
	alarm alarm         // when the next try is due
	poke  chan struct{} // ends the contender's pause early; buffered; made by the first pause
	tries int           // tries in a row that got nowhere
	last  string        // owner id of the latest grant: a message for it is late, not strange

	// What is known of others.
	wanted bool      // other processes are known to wait for the key
	busy   time.Time // until then another process is likely to hold it
	seen   sighting  // the holder that the last try saw
	fault  error     // ErrUnavailable, if it got no answer
}

// sighting is who held a key when.
type sighting struct {
	holder    Holder
	remaining time.Duration
	at        time.Time // zero: nobody was seen
}

// join gives t the floor if nobody has it, or else puts it in line if it may stand there. ahead and expected are what
// decided: how many stand in line, and how long they and t will take.
func (gt *gate) join(t *turn, now time.Time) (joined bool, ahead int, expected time.Duration) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.floor == nil {
		gt.floor = t
		return true, 0, 0
	}
	ahead, expected = gt.line.length, gt.pace.expect(gt.line.length+1)
	if !t.mayWait(ahead, expected, now) {
		return false, ahead, expected
	}
	t.floor = make(chan struct{}, 1)
	gt.line.push(t)
	return true, ahead, expected
}

// rejoin puts a turn that lost the floor, with a grant that did not last, back in front of the line, or on the floor if
// that is free.
func (gt *gate) rejoin(t *turn) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	switch gt.floor {
	case t:
		gt.grant = nil
	case nil:
		gt.floor = t
	default:
		t.floor = make(chan struct{}, 1)
		gt.line.pushFront(t)
	}
}

// stand returns whether t has the floor, and with what grant; or else what tells it that it was given the floor.
func (gt *gate) stand(t *turn) (gr *grant, has bool, given <-chan struct{}) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.grant, gt.floor == t, t.floor
}

// quit takes t out of the line, or off the floor, which goes on as after a turn: with the grant if t was given one that
// the next may use. What it returns is for nobody any more: the grant, or the bid, to be given up.
func (gt *gate) quit(t *turn) (*grant, *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if t.inLine {
		gt.line.remove(t)
		return nil, nil
	}
	if gt.floor != t {
		return nil, nil
	}
	gr := gt.grant
	if gr != nil && gt.nextMayUse(gr) {
		gt.give(gr)
		return nil, nil
	}
	return gr, gt.giveUp()
}

// handOff gives the next in line the floor together with t's grant, if it allows another turn and that call asks for no
// more than it offers. If it reports false, nothing has changed but the pace.
func (gt *gate) handOff(t *turn, gr *grant, now time.Time) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.floor != t || gt.grant != gr {
		return false
	}
	if gt.line.first == nil {
		gt.pace.ended(now)
		return false
	}
	if !gt.nextMayUse(gr) {
		return false
	}
	gt.give(gr)
	return true
}

func (gt *gate) nextMayUse(gr *grant) bool {
	next := gt.line.first
	return next != nil && gr.terms.serve(next.terms) && gr.mayGoOn()
}

// pass ends t's floor, if t still has it, and gives it to the next in line to contend. A bid that nobody is left to go on
// with is returned to be given up (law 6).
func (gt *gate) pass(t *turn) *bid {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.floor != t {
		return nil
	}
	return gt.giveUp()
}

// giveUp passes the floor without a grant; gt.mu is held.
func (gt *gate) giveUp() (left *bid) {
	gt.give(nil)
	if gt.floor == nil {
		left = gt.dropBid()
		gt.place = 0
	}
	return left
}

// give hands the floor to the first in line; gt.mu is held.
func (gt *gate) give(gr *grant) {
	next := gt.line.first
	gt.floor, gt.grant = next, gr
	if next != nil {
		gt.line.remove(next)
		next.floor <- struct{}{} // buffered, and sent once: never blocks
	}
}

// hold notes that the floor holds gr: the bid has become a grant.
func (gt *gate) hold(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.grant, gt.last = gr, gr.claim.Owner
	gt.dropBid()
	gt.place, gt.tries, gt.seen, gt.fault = 0, 0, sighting{}, nil
	if gt.wanted {
		gr.shorten(gt.line.length)
	}
}

// revoke takes the floor from whoever holds gr, which is lost, and gives it to the next in line to contend.
func (gt *gate) revoke(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.stray(gr)
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

// began notes that t's turn begins.
func (gt *gate) began(t *turn, now time.Time) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.pace.began(now, t.joined)
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

// othersWait reports whether a call other than t stands in line.
func (gt *gate) othersWait(t *turn) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.line.length > 1 || gt.line.length == 1 && !t.inLine
}

// holder describes who has the key, as far as it is known here.
func (gt *gate) holder(now time.Time) *HeldError {
	gt.mu.Lock()
	gr, seen := gt.grant, gt.seen
	expected := gt.pace.expect(gt.line.length + 1)
	gt.mu.Unlock()
	e := &HeldError{Key: gt.key, expected: expected}
	switch {
	case gr != nil:
		e.Remaining, e.Holder = max(0, gr.expiry().Sub(now)), gr.claim.Holder
	case !seen.at.IsZero():
		e.Remaining, e.Holder = max(0, seen.remaining-now.Sub(seen.at)), seen.holder
	}
	return e
}
