package turns

import (
	"slices"
	"time"
)

// A crowd is what a gate knows of turns that need not be alone on the key. A
// gate without such turns has none. The gate's mutex guards it. The store keeps
// law 13 between grants. full and mayGoOn keep it between the turns here.
//
// Such a turn has the floor only until it has a grant, and the next in line may
// contend after that. A permit is a grant of its own. Shared turns enter one
// grant together.
//
// Invariant: open is nil or one of grants, and it is shared. A grant is here
// until its release begins or it is lost. open may have ended, until mayGoOn
// is asked.
type crowd struct {
	grants []*grant // with a limit above 1, until they are released or lost
	open   *grant   // the shared one that others may enter; nil: there is none
}

// has reports whether owner has one of the grants.
func (c *crowd) has(owner string) bool {
	return c != nil && slices.ContainsFunc(c.grants, func(gr *grant) bool { return gr.bid.claim.Owner == owner })
}

// full reports whether t wants a permit while this process has all of them, or
// will have them when those ahead of t have one each. A turn that ends passes
// its permit on, so t need not contend.
func (c *crowd) full(t *Turn, ahead int) bool {
	if c != nil {
		ahead += len(c.grants)
	}
	return t.set.Limit > 1 && ahead >= t.set.Limit
}

// lasts returns how long the last grant lasts in the store from now unless it
// is renewed.
func (c *crowd) lasts(now time.Time) (d time.Duration) {
	for _, gr := range c.grants {
		_, left := gr.heldBy(now)
		d = max(d, left)
	}
	return d
}

// forget takes gr out. forget reports whether gr was there.
func (c *crowd) forget(gr *grant) bool {
	if c == nil {
		return false
	}
	if c.open == gr {
		c.open = nil
	}
	i := slices.Index(c.grants, gr)
	if i < 0 {
		return false
	}
	c.grants = slices.Delete(c.grants, i, i+1)
	return true
}

// The methods below are those of a gate whose turns are not alone. The mutex is
// held.

// openTo reports whether t may enter the open grant.
func (gt *gate) openTo(t *Turn) bool {
	if gt.crowd == nil || gt.crowd.open == nil || !t.shared() {
		return false
	}
	gr := gt.crowd.open
	if !gr.mayGoOn() {
		gt.crowd.open = nil // it ends with its last member
		return false
	}
	return gr.bid.terms.serve(t.terms())
}

// enter gives gr to t, which does not have the floor. From now on gr counts t.
func (gt *gate) enter(t *Turn, gr *grant) {
	gr.inside++
	t.entered = gr
}

// enterFirst lets the first in line enter gr.
func (gt *gate) enterFirst(gr *grant) { gt.enterFromLine(gt.line.first, gr) }

func (gt *gate) enterFromLine(t *Turn, gr *grant) {
	gt.line.remove(t)
	gt.enter(t, gr)
	t.given <- struct{}{} // buffered, and sent once: never blocks
}

// enterFront lets the shared turns in front of the line enter the open grant.
func (gt *gate) enterFront() {
	for gt.line.first != nil && gt.openTo(gt.line.first) {
		gt.enterFirst(gt.crowd.open)
	}
}

// disperse is tryWon for a grant with a limit. The turn on the floor enters gr
// and leaves the floor to the next. If gr is shared, all shared turns in line
// enter it too, also those that stand behind others. The front of the line is
// overtaken once by that, and the others need not contend one by one.
func (gt *gate) disperse(gr *grant) {
	if gt.crowd == nil {
		gt.crowd = &crowd{}
	}
	gt.crowd.grants = append(gt.crowd.grants, gr)
	gt.enter(gt.floor, gr)
	if gr.shared() {
		gt.crowd.open = gr
		for t := gt.line.first; t != nil; {
			next := t.next
			if gt.openTo(t) {
				gt.enterFromLine(t, gr)
			}
			t = next
		}
		if gr.bid.wanted {
			gt.crowd.open = nil // law 9: these were the last
		}
	}
	gt.giveFloor(nil)
}

// awaitsAnswer reports whether t, which has one attempt, stands in line until
// the request on the floor is answered. One attempt is one answer about the key,
// and the key may have room for t beside all that are ahead. Where the floor
// pauses, the answer is known.
func (gt *gate) awaitsAnswer(t *Turn) bool {
	f, c := gt.floor, &gt.contender
	if !t.asksBeside() || f == nil || f.set.Limit == 0 || gt.line.alone > 0 {
		return false
	}
	return c.alarm.state != asleep && c.fault == nil &&
		!gt.crowd.full(t, 1+gt.line.turns()) && !t.full(gt.line.length)
}

// advance gives the floor to the first in line, if nobody has it.
func (gt *gate) advance() {
	if gt.floor == nil && gt.line.first != nil {
		gt.giveFloor(nil)
	}
}

// exit takes a turn out of gr. exit reports whether gr was left without a turn
// by that. Nobody enters gr any more then.
func (gt *gate) exit(gr *grant) (last bool) {
	gr.inside--
	if last = gr.inside == 0; last && gt.crowd.open == gr {
		gt.crowd.open = nil
	}
	return last
}

// handPermit gives gr to the first in line, if that waits for a permit and gr
// has room for another turn. A turn on the floor is overtaken for as long as gr
// goes on at most. The turn has its place in the store's queue meanwhile, and
// gr ends after one pass over the line if somebody waits there (law 9).
func (gt *gate) handPermit(gr *grant) bool {
	if gr.shared() || !gt.nextMayUse(gr) {
		return false
	}
	gt.enterFirst(gr)
	gt.advance() // those behind it need not wait for a permit
	return true
}

// quitGrant takes t out of the grant that it was given without the floor.
// quitGrant returns the grant if nobody is left on it. The caller must abandon
// it.
func (gt *gate) quitGrant(t *Turn) *grant {
	gr := t.entered
	t.entered = nil
	if !gt.exit(gr) || gt.handPermit(gr) {
		return nil
	}
	gt.crowd.forget(gr)
	gt.advance()
	return gr
}

// expel takes t out of gr, unless t is not on gr any more or is alone there.
// expel reports whether nobody is left on gr. The caller must discard it then.
func (gt *gate) expel(t *Turn, gr *grant) (expelled, last bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if !gr.endOneOf(t) {
		return false, false
	}
	gt.strays = append(gt.strays, t)
	if last = gt.exit(gr); last {
		gt.crowd.forget(gr)
		gt.advance()
	}
	return true, last
}

// exitGrant takes a turn that has ended out of gr, which is lost. exitGrant
// reports whether nobody is left on gr.
func (gt *gate) exitGrant(gr *grant) (last bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return !gr.crowded() || gt.exit(gr)
}

// grants returns all grants that this process has of the key.
func (gt *gate) grants() (all []*grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.grant != nil {
		all = append(all, gt.grant)
	}
	if gt.crowd != nil {
		all = append(all, gt.crowd.grants...)
	}
	return all
}

// nextMayUse reports whether gr has room for a turn of the next in line. gt.mu
// is held.
func (gt *gate) nextMayUse(gr *grant) bool {
	next := gt.line.first
	return next != nil && gr.bid.terms.serve(next.terms()) && gr.mayGoOn()
}

// vacate passes the floor on without a grant. vacate returns a bid that nobody
// is left to go on with. gt.mu is held.
func (gt *gate) vacate() *bid {
	gt.giveFloor(nil)
	if gt.floor != nil {
		return nil
	}
	return gt.contender.withdraw()
}

// giveFloor gives the floor to the first in line. Turns in front of it that may
// enter the open grant do so before, if the floor comes without a grant. gt.mu
// is held.
func (gt *gate) giveFloor(gr *grant) {
	waits := func(t *Turn) bool { // for a permit of this process, which it is given
		return t != nil && gr == nil && gt.crowd.full(t, 0)
	}
	if gr == nil {
		gt.enterFront()
	}
	if waits(gt.line.first) {
		gt.tellOnce(errNoWait, func(*Turn) bool { return true })
		gt.enterFront()
	}
	next := gt.line.first
	if waits(next) {
		next = nil
	}
	gt.floor, gt.grant = next, gr
	if next != nil {
		gt.line.remove(next)
		next.given <- struct{}{} // buffered, and sent once: never blocks
	}
	gt.tellLine()
}

// wantGrant ends the tenure of gr after one pass over the calls in line now (law
// 9). gt.mu is held.
func (gt *gate) wantGrant(gr *grant) {
	if taken, news := gr.want(gt.line.length); news {
		gt.habits.ended(gt.name, taken)
	}
}

// tellLine lets wishes come true if a call of this process waits for its turns
// to end. While the floor contends beside them, the store knows whether they
// are in the way. gt.mu is held.
func (gt *gate) tellLine() {
	switch {
	case !gt.asked:
	case gt.grant != nil && gt.line.first != nil:
		gt.grant.tellWishes()
	case gt.crowd != nil && (gt.floor == nil && gt.line.first != nil || gt.floor != nil && gt.contender.queued()):
		for _, gr := range gt.crowd.grants {
			gr.tellWishes()
		}
	}
}

// tell ends the wait of those in line with a verdict. gt.mu is held.
func (gt *gate) tell(verdict error, those func(w *Turn) bool) {
	for w := gt.line.first; w != nil; {
		next := w.next
		if those(w) {
			gt.line.remove(w)
			w.verdict = verdict
			w.given <- struct{}{} // buffered, and sent once: never blocks
		}
		w = next
	}
}

// tellOnce is tell for those with one attempt.
func (gt *gate) tellOnce(verdict error, those func(w *Turn) bool) {
	if gt.line.once > 0 {
		gt.tell(verdict, func(w *Turn) bool { return w.patience.Once && those(w) })
	}
}

// answer gives a record to the calls that wait for one: those in line, which
// leave it, and the one that contends. gt.mu is held.
//
// Only those of the first joins calls get it, which had joined before the
// record was looked for, or could be kept. A later call may have begun when the
// record was forgotten already, so it looks for itself.
func (gt *gate) answer(record string, joins uint32) {
	if f := gt.floor; f != nil && gt.grant == nil && f.grant == nil && f.among(joins) {
		f.patience.Recall.learn(record)
	}
	gt.tell(ErrRecorded, func(w *Turn) bool { return w.among(joins) && w.patience.Recall.learn(record) })
}
