package turns

import (
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/lockorder"
	"github.com/go-lockguard/guard/locker"
)

// A gate is where the calls of this process that want one key meet. One of them
// has the floor: it contends for the key in the store, or has its turn on the
// grant, or releases it. The others stand in line in order of arrival. The call
// that has the floor passes it to the first of them. 10,000 calls that wait
// cost the store as much as one.
//
// Its methods take the mutex for a few instructions, and never across I/O or a
// callback. Package lockorder says what may be locked inside.
type gate struct {
	*common
	home *gates
	key  string // as the callers gave it
	name string // as the store knows it
	refs int    // guarded by the shard's mutex

	mu lockorder.Gate // guards what follows
	standing
}

// retain keeps gt alive for one more leave.
func (gt *gate) retain() {
	sh := gt.home.shard(gt.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	gt.refs++
}

// leave undoes one retain, or enter of home.
func (gt *gate) leave() {
	sh := gt.home.shard(gt.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if gt.refs--; gt.refs == 0 {
		delete(sh.gates, gt.name)
	}
}

// join gives t the floor if nobody has it. Otherwise it puts t in line if t may
// stand there. The decision rests on ahead and expected. ahead is the number of
// calls in line, and expected is how long they and t will take.
func (gt *gate) join(t *Turn, now time.Time) (joined bool, ahead int, expected time.Duration) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.line.joins++
	t.order = gt.line.joins
	if gt.joinIdle(t, now) {
		return true, 0, 0
	}
	if gt.floor == nil && gt.line.first == nil {
		switch {
		case gt.openTo(t):
			gt.enter(t, gt.crowd.open)
			return true, 0, 0
		case !gt.crowd.full(t, 0):
			gt.floor = t
			return true, 0, 0
		}
	}
	ahead, expected = gt.line.length, gt.line.expect()
	t.second = ahead == 0 && gt.floor != nil && gt.floor.idleReleaser
	if !t.second && !gt.awaitsAnswer(t) && !t.mayWait(ahead, expected, now) {
		return false, ahead, expected
	}
	t.given = make(chan struct{}, 1)
	gt.line.push(t)
	gt.tellLine()
	return true, ahead, expected
}

// joinFree gives t the floor if nobody has it or waits for it, and the key is
// not idle here.
func (gt *gate) joinFree(t *Turn) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.floor != nil || gt.line.first != nil || gt.grant != nil {
		return false
	}
	gt.floor = t
	return true
}

// rejoin is for a turn whose grant did not last until its begin. rejoin puts
// the turn back on the floor, or in front of the line if another turn has the
// floor. rejoin reports whether the grant is left to nobody. The caller must
// discard it then.
func (gt *gate) rejoin(t *Turn, gr *grant) (unused bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	unused = true
	gt.releaseIdle() // t does not have the floor then
	if t.entered != nil {
		t.entered = nil
		if gt.crowd.open == gr {
			gt.crowd.open = nil
		}
		if unused = gt.exit(gr); unused {
			gt.crowd.forget(gr)
		}
	}
	switch gt.floor {
	case t:
		gt.grant = nil
	case nil:
		gt.floor = t
	default:
		t.given = make(chan struct{}, 1)
		gt.line.pushFront(t)
		gt.tellLine()
	}
	return unused
}

// stand reports whether t has the floor, and with which grant. If not, given
// tells when t gets it. recorded reports that a record ends the wait of t.
func (gt *gate) stand(t *Turn) (gr *grant, has bool, given <-chan struct{}, recorded bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	recorded = t.patience.Recall.answered()
	if t.entered != nil {
		return t.entered, true, nil, recorded
	}
	return gt.grant, gt.floor == t, t.given, recorded
}

// quit takes t out of the line or off the floor. The floor goes on as after a
// turn, with the grant if t was given one that the next may use. Otherwise quit
// returns the grant or bid that is left to nobody. The caller must give it up.
func (gt *gate) quit(t *Turn) (*grant, *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if t.listed {
		gt.line.remove(t)
		gt.advance()
		return nil, nil
	}
	if t.entered != nil {
		return gt.quitGrant(t), nil
	}
	if gt.floor != t {
		return nil, nil
	}
	gr := gt.grant
	if gr != nil && gt.passGrant(t, gr, time.Now()) {
		return nil, nil
	}
	return gr, gt.vacate()
}

// passGrant gives the floor to the next in line together with gr, if that may
// use it. With nobody in line gr may become idle. t has had gr on the floor.
// gt.mu is held.
func (gt *gate) passGrant(t *Turn, gr *grant, now time.Time) bool {
	if gt.line.first == nil {
		return gt.leaveIdle(t, gr, now)
	}
	if !gt.nextMayUse(gr) {
		return false
	}
	gt.giveFloor(gr)
	return true
}

// handOff gives the floor to the next in line together with t's grant. handOff
// does so if the grant allows another turn and that call asks for no more than
// it offers. If it returns false, only the pace has changed. A permit goes to
// the next without the floor, and a shared grant stays with the others on it.
// With nobody in line the grant may become idle, see [idler].
func (gt *gate) handOff(t *Turn, now time.Time) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if t.grant.bid.terms.crowded() {
		return !gt.exit(t.grant) || gt.handPermit(t.grant)
	}
	if gt.floor != t || gt.grant != t.grant {
		return false
	}
	if gt.line.first == nil {
		gt.line.pace.ended(now)
	}
	return gt.passGrant(t, t.grant, now)
}

// passFloor ends t's floor, if t still has it, and gives it to the next in line
// to contend. A turn that had no floor ends its grant instead. passFloor
// returns a bid that nobody is left to go on with. The caller must give it up
// (law 3).
func (gt *gate) passFloor(t *Turn) *bid {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gr := t.grant; gr != nil && gr.bid.terms.crowded() {
		gt.crowd.forget(gr)
		gt.advance()
		return nil
	}
	if gt.floor != t {
		return nil
	}
	return gt.vacate()
}

// dropLost takes the floor from the turn that holds gr, because gr is lost.
// dropLost gives the floor to the next in line to contend. A turn that has yet
// to begin on gr, and may not have seen it, keeps the floor and contends
// itself.
func (gt *gate) dropLost(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.overrunning = append(gt.overrunning, gr.current()...) // not those whose function has returned
	switch {
	case gt.grant == gr && gt.floor != nil && gt.floor.grant == nil:
		gt.grant = nil
	case gt.grant == gr:
		gt.giveFloor(nil)
	case gt.crowd.forget(gr):
		gt.advance()
	}
}

// contends reports whether the turn on the floor has no grant yet.
func (gt *gate) contends() bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.floor != nil && gt.grant == nil
}

// expel takes t out of gr, unless t is not on gr any more or is alone there.
// expel returns the occupant of t, if there is one, and reports whether nobody
// is left on gr. The caller must discard it then.
func (gt *gate) expel(t *Turn, gr *grant) (expelled bool, o Occupant, last bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if expelled, o = gr.endOneOf(t); !expelled {
		return false, nil, false
	}
	gt.overrunning = append(gt.overrunning, t)
	if last = gt.exit(gr); last {
		gt.crowd.forget(gr)
		gt.advance()
	}
	return true, o, last
}

// exitGrant takes a turn that has ended out of gr, which is lost. exitGrant
// reports whether nobody is left on gr.
func (gt *gate) exitGrant(gr *grant) (last bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return !gr.bid.terms.crowded() || gt.exit(gr)
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

// began records that t's turn begins.
func (gt *gate) began(t *Turn, now time.Time) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if t.shared() && t.number > 1 {
		return // it came together with the first
	}
	gt.line.pace.began(now, t.joined)
}

// known describes the holder of the key, as far as this process knows it. known
// also tells how long the next call must expect to wait. fault is set instead
// if the last try got no answer.
func (gt *gate) known(now time.Time) (r Refusal, fault error) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.standing.known(now)
}

// refusal is known for t, which goes without the key. The next call will hardly
// have a shorter wait than t had in vain, unless the end of a cooldown is
// known.
func (gt *gate) refusal(t *Turn, now time.Time) (r Refusal, fault error) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	r, fault = gt.standing.known(now)
	r.Expected = max(r.Expected, now.Sub(t.joined))
	if gr := gt.grant; gr != nil {
		r.Here, r.Cooldown = gr.keptFrom(t, now)
	} else {
		_, here := instances.Load(r.Holder.Instance)
		r.Here = here && !r.Holder.Since.After(t.joined)
		r.Cooldown = t.set.cooldownElsewhere(r.Holder, now)
	}
	if alone := gt.line.length == 0 || gt.line.length == 1 && t.listed; alone && r.Cooldown > 0 {
		r.Expected = 0
	}
	return r, fault
}

// unheard reports whether no try has told anything of the key.
func (gt *gate) unheard() bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.contender.seen.at.IsZero() && gt.contender.fault == nil
}

// want records that other processes wait for the key.
func (gt *gate) want() {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.grant != nil {
		gt.wantGrant(gt.grant)
	} else {
		if b := gt.contender.bid; b != nil {
			b.wanted = true // a message may come before the answer that makes the bid its owner
		}
		gt.lingerStats.busy(gt.name)
	}
	if gt.crowd != nil {
		gt.crowd.open = nil // nobody enters it any more
		for _, gr := range gt.crowd.grants {
			gt.wantGrant(gr)
		}
	}
	gt.releaseIdle()
}

// wantGrant ends the tenure of gr after one pass over the calls in line now
// (law 7). gt.mu is held.
func (gt *gate) wantGrant(gr *grant) {
	if taken, news := gr.want(gt.line.length); news {
		gt.lingerStats.ended(gt.name, taken)
	}
}

// notify is [Turn.Notify].
func (gt *gate) notify(t *Turn, s *Signal) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.notifies = true
	t.grant.notify(t, s)
	gt.tellLine()
}

// wake ends the contender's pause at the given time, if the floor contends.
func (gt *gate) wake(at time.Time) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.contender.busy = time.Time{}
	if gt.floor != nil && gt.grant == nil {
		gt.contender.wake(at)
	}
}

// granted records a hand-over to owner. granted reports whether owner belongs
// to this process.
func (gt *gate) granted(owner string, o locker.Offer) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.contender.granted(owner, o) || gt.crowd.has(owner)
}

func (gt *gate) state(now time.Time, maxWaits int) State {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	s := State{Key: gt.key}
	for _, t := range gt.overrunning {
		s.Holds = append(s.Holds, t.grant.state(t))
	}
	wait := func(t *Turn) {
		if s.Waiting++; s.Waiting <= maxWaits {
			s.Waits = append(s.Waits, WaitState{Name: t.set.Name, Since: t.joined, Until: t.patience.Until})
		}
	}
	if t := gt.floor; t == nil || !t.idleReleaser {
		var holds []HoldState
		gr := gt.grant
		if gr == nil && t != nil {
			gr = t.grant // whose release is under way
		}
		if gr != nil {
			holds = gr.states(t)
		}
		if t != nil && len(holds) == 0 {
			wait(t)
		}
		s.Holds = append(s.Holds, holds...)
	}
	if gt.crowd != nil {
		for _, gr := range gt.crowd.grants {
			s.Holds = append(s.Holds, gr.states(nil)...)
		}
	}
	for t := gt.line.first; t != nil; t = t.next {
		wait(t)
	}
	if seen := gt.contender.seen; len(s.Holds) == len(gt.overrunning) && !seen.at.IsZero() {
		s.Blocker, s.BlockedFor = seen.holder, seen.left(now)
	}
	return s
}

// next is [contender.next] for t, which has the floor. The error is ErrRecorded
// if a record has ended the wait of t.
func (gt *gate) next(t *Turn, now time.Time) (a action, err error) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if t.patience.Recall.answered() {
		return a, ErrRecorded
	}
	a = gt.contender.next(now, t.terms())
	if a.do == toTake && gt.crowd != nil {
		a.bid.wanted = a.offer.Waiting > 0 // the message may have been of our own claim
	}
	return a, nil
}

// update changes the contender by f, under the mutex. f returns a bid that is
// over by that. The caller must give it up.
func (gt *gate) update(f func(c *contender, now time.Time) (over *bid)) *bid {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return f(&gt.contender, time.Now())
}

// beginTry is [contender.beginTry]. beginTry also returns how many calls have
// joined the gate by now, see [standing.answer].
func (gt *gate) beginTry(b *bid, wait bool, now time.Time) (how locker.Try, joins uint32) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	how = gt.contender.beginTry(b, wait, now)
	if !how.Queued {
		b.joins = gt.line.joins // if a record takes it out of the queue, that is later
	}
	return how, gt.line.joins
}

// tryWon records that the bid has become gr, which the floor holds from now on.
// A turn that need not be alone holds it without the floor.
func (gt *gate) tryWon(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.contender.tryWon(gr.bid.claim.Owner)
	if gr.bid.wanted {
		gt.wantGrant(gr)
	}
	if gr.bid.terms.crowded() {
		gt.enterCrowd(gr)
	} else {
		gt.grant = gr
	}
}

// tryHeld is [contender.tryHeld] for a try of t. joins is what beginTry has
// returned. The answer is one for the calls in line with one attempt, too.
func (gt *gate) tryHeld(t *Turn, a locker.Answer, sent time.Time, joins uint32) (over *bid) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if over = gt.contender.tryHeld(a, sent, time.Now(), t.set.Backoff); over == nil && a.Queued {
		gt.contender.bid.joins = joins
		gt.tellLine()
	}
	gt.line.tellOnce(errNoWait, t.alsoFor(joins))
	return over
}

// tryFailed tells those in line of a try of t that ended with err. final says
// that no other try can help. The error is for all then that ask for the same,
// and the next of the others asks at once.
func (gt *gate) tryFailed(t *Turn, err error, joins uint32, final bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if !final {
		gt.line.tellOnce(err, t.alsoFor(joins))
		return
	}
	terms := t.terms()
	gt.line.tell(err, func(w *Turn) bool { return w.terms() == terms })
	gt.contender.alarm.sleep(time.Now())
}

// beginRelease records that gr is released. If the floor releases it, the first
// in line, which wants the key again, is returned. Otherwise the call on the
// floor contends already, or nobody does.
func (gt *gate) beginRelease(gr *grant) (next *Turn) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gr.bid.terms.crowded() {
		return nil
	}
	if gt.grant == gr {
		gt.grant = nil
		if gt.floor.idleReleaser {
			gt.floor.joined = time.Now() // see hangs
		}
	}
	return gt.line.first
}

// released is [contender.released]. The gate is kept for a while although it is
// unused, so that the next call knows that another process has the key.
func (gt *gate) released(r locker.Released, next *bid, sent time.Time, b Backoff) {
	gt.mu.Lock()
	keep := r.Handed && (next == nil || gt.contender.bid != next)
	gt.contender.released(r, next, sent, time.Now(), b)
	gt.mu.Unlock()
	if keep {
		gt.home.recent.keep(gt)
	}
}

// hangs reports whether an idle releaser has waited so long for the answer to
// its release.
func (gt *gate) hangs(now time.Time, long time.Duration) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.floor != nil && gt.floor.idleReleaser && gt.grant == nil && now.Sub(gt.floor.joined) >= long
}

// turnReturned forgets t, whose function has returned after its grant was lost.
func (gt *gate) turnReturned(t *Turn) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.overrunning = slices.DeleteFunc(gt.overrunning, func(other *Turn) bool { return other == t })
}

// foundRecord notes that a try of t, which has the floor, found a record.
// foundRecord answers those of the first joins calls that wait for one, see
// [standing.answer]. foundRecord returns the bid, which is over.
func (gt *gate) foundRecord(t *Turn, record string, joins uint32) *bid {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if t.attempts == 1 && !t.stood() { // t did not wait
		t.patience.Recall.record = record
	}
	gt.answer(record, joins)
	gt.contender.spent = true
	return gt.contender.withdraw()
}

// recorded notes that a turn has kept a record, or has found one that it takes
// itself. recorded answers those of the first joins calls that wait for one,
// see [standing.answer].
func (gt *gate) recorded(record string, joins uint32, found *Recall) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if found != nil {
		found.record = record
	}
	gt.answer(record, joins)
}

// joined returns how many calls have joined the gate by now.
func (gt *gate) joined() uint32 {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.line.joins
}

// told records that the claim of owner has left the store's queue because of a
// record. Without the record itself, the next try finds it.
func (gt *gate) told(owner, record string) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if b := gt.contender.bid; b == nil || b.claim.Owner != owner {
		return
	}
	gt.contender.spent = true
	if record != "" {
		gt.answer(record, gt.contender.bid.joins)
	}
	gt.contender.wake(time.Now())
}

// leaveIdle leaves gr, which t has on the floor with nobody in line and does
// not use any longer, to the next call. leaveIdle returns false if the key must
// be released. gt.mu is held.
func (gt *gate) leaveIdle(t *Turn, gr *grant, now time.Time) bool {
	if gr.idler == nil || gt.calls.isShut() || !gr.idle(t.set.Linger, now) {
		return false // Close looks for idle keys once calls are shut
	}
	gt.floor = nil
	return true
}

// joinIdle gives t the floor with the idle grant, if t may use that. Otherwise
// an idle releaser releases the key. gt.mu is held.
func (gt *gate) joinIdle(t *Turn, now time.Time) bool {
	gr := gt.idle()
	if gr == nil {
		return false
	}
	if !gr.bid.terms.serve(t.terms()) || !gr.resume(now) {
		gt.releaseIdle()
		return false
	}
	gt.lingerStats.paid()
	gt.floor, t.idle = t, true
	return true
}

// releaseIdle gives the floor to a new idle releaser, which releases the idle
// grant. releaseIdle does nothing if there is none. gt.mu is held.
func (gt *gate) releaseIdle() {
	gr := gt.idle()
	if gr == nil {
		return
	}
	gt.background.begin() // under a grant that has not ended; until retire
	gt.retain()
	gt.floor = &Turn{
		common: gt.common, gate: gt, set: gr.idler.set, events: gr.events, grant: gr,
		waiting: waiting{idleReleaser: true},
	}
	gt.idleReleasers.add(gr.idler.node, gt.floor)
}

// endIdle releases gr if gr is idle.
func (gt *gate) endIdle(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.idle() == gr {
		gt.releaseIdle()
	}
}

// missed notes that the message of a process that wants the key may have been
// missed, and releases an idle key.
func (gt *gate) missed() {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	switch gr, b := gt.grant, gt.contender.bid; {
	case gr != nil && gr.idler != nil:
		gr.shorten(gt.line.length)
	case b != nil && b.claim.Lingers && !b.queued:
		b.wanted = true // its answer may be on the way
	}
	gt.releaseIdle()
}
