package turns

import (
	"slices"
	"time"
)

// A standing is how the turns of a gate stand to each other, without the mutex
// of the gate, which guards it, and without I/O.
//
// Invariant: grant and the contender's bid are never both set. If floor is nil,
// the bid is nil, and the line is empty, or its first turn waits for a permit
// of this process. grant is an exclusive one, and nil while the floor contends
// or releases. Without a floor the grant is idle, and the line is empty. Turns
// that need not be alone have theirs in crowd, without the floor.
//
// A turn is in at most one place: on the floor, in line, or in a grant of
// crowd. A turn that has ended has the floor only while it releases the key, or
// in its cooldown.
type standing struct {
	floor       *Turn
	grant       *grant // of the floor
	line        line
	crowd       *crowd  // of turns that need not be alone; nil if there has been none
	overrunning []*Turn // whose functions run on without the key
	contender   contender
	notifies    bool // a turn has a [Signal] to send
}

// A crowd is what a gate knows of turns that need not be alone on the key. A
// gate without such turns has none. The gate's mutex guards it. The store keeps
// law 9 between grants. full and mayGoOn keep it between the turns here.
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

// openTo reports whether t may enter the open grant.
func (st *standing) openTo(t *Turn) bool {
	if st.crowd == nil || st.crowd.open == nil || !t.shared() {
		return false
	}
	gr := st.crowd.open
	if !gr.mayGoOn() {
		st.crowd.open = nil // it ends with its last member
		return false
	}
	return gr.bid.terms.serve(t.terms())
}

// enter gives gr to t, which does not have the floor. From now on gr counts t.
func (st *standing) enter(t *Turn, gr *grant) {
	gr.inside++
	t.entered = gr
}

// enterFromLine lets t, which stands in line, enter gr.
func (st *standing) enterFromLine(t *Turn, gr *grant) {
	st.enter(t, gr)
	st.line.dequeue(t)
}

// enterFront lets the shared turns in front of the line enter the open grant.
func (st *standing) enterFront() {
	for st.line.first != nil && st.openTo(st.line.first) {
		st.enterFromLine(st.line.first, st.crowd.open)
	}
}

// enterCrowd is tryWon for a grant with a limit. The turn on the floor enters
// gr and leaves the floor to the next. If gr is shared, all shared turns in
// line enter it too, also those that stand behind others. The front of the line
// is overtaken once by that, and the others need not contend one by one.
func (st *standing) enterCrowd(gr *grant) {
	if st.crowd == nil {
		st.crowd = &crowd{}
	}
	st.crowd.grants = append(st.crowd.grants, gr)
	st.enter(st.floor, gr)
	if gr.bid.terms.shared() {
		st.crowd.open = gr
		for t := st.line.first; t != nil; {
			next := t.next
			if st.openTo(t) {
				st.enterFromLine(t, gr)
			}
			t = next
		}
		if gr.bid.wanted {
			st.crowd.open = nil // law 7: these were the last
		}
	}
	st.giveFloor(nil)
}

// awaitsAnswer reports whether t, which has one attempt, stands in line until
// the request on the floor is answered. One attempt is one answer about the
// key, and the key may have room for t beside all that are ahead. Where the
// floor pauses, the answer is known.
func (st *standing) awaitsAnswer(t *Turn) bool {
	f, c := st.floor, &st.contender
	if !t.asksBeside() || f == nil || f.set.Limit == 0 || st.line.alone > 0 {
		return false
	}
	return c.alarm.state != asleep && c.fault == nil &&
		!st.crowd.full(t, 1+st.line.turns()) && !t.full(st.line.length)
}

// advance gives the floor to the first in line, if nobody has it.
func (st *standing) advance() {
	if st.floor == nil && st.line.first != nil {
		st.giveFloor(nil)
	}
}

// exit takes a turn out of gr. exit reports whether gr was left without a turn
// by that. Nobody enters gr any more then.
func (st *standing) exit(gr *grant) (last bool) {
	gr.inside--
	if last = gr.inside == 0; last && st.crowd.open == gr {
		st.crowd.open = nil
	}
	return last
}

// handPermit gives gr to the first in line, if that waits for a permit and gr
// has room for another turn. A turn on the floor is overtaken for as long as gr
// goes on at most. The turn has its place in the store's queue meanwhile, and
// gr ends after one pass over the line if somebody waits there (law 7).
func (st *standing) handPermit(gr *grant) bool {
	if gr.bid.terms.shared() || !st.nextMayUse(gr) {
		return false
	}
	st.enterFromLine(st.line.first, gr)
	st.advance() // those behind it need not wait for a permit
	return true
}

// quitGrant takes t out of the grant that it was given without the floor.
// quitGrant returns the grant if nobody is left on it. The caller must give it
// up.
func (st *standing) quitGrant(t *Turn) *grant {
	gr := t.entered
	t.entered = nil
	if !st.exit(gr) || st.handPermit(gr) {
		return nil
	}
	st.crowd.forget(gr)
	st.advance()
	return gr
}

// nextMayUse reports whether gr has room for a turn of the next in line.
func (st *standing) nextMayUse(gr *grant) bool {
	next := st.line.first
	return next != nil && gr.bid.terms.serve(next.terms()) && gr.mayGoOn()
}

// vacate passes the floor on without a grant. vacate returns a bid that nobody
// is left to go on with.
func (st *standing) vacate() *bid {
	st.giveFloor(nil)
	if st.floor != nil {
		return nil
	}
	return st.contender.withdraw()
}

// giveFloor gives the floor to the first in line. Turns in front of it that may
// enter the open grant do so before, if the floor comes without a grant.
func (st *standing) giveFloor(gr *grant) {
	waits := func(t *Turn) bool { // for a permit of this process, which it is given
		return t != nil && gr == nil && st.crowd.full(t, 0)
	}
	if gr == nil {
		st.enterFront()
	}
	if waits(st.line.first) {
		st.line.tellOnce(errNoWait, func(*Turn) bool { return true })
		st.enterFront()
	}
	next := st.line.first
	if waits(next) {
		next = nil
	}
	st.floor, st.grant = next, gr
	if next != nil {
		st.line.dequeue(next)
	}
	st.tellLine()
}

// tellLine sends signals if a call of this process waits for its turns
// to end. While the floor contends beside them, the store knows whether they
// are in the way.
func (st *standing) tellLine() {
	switch {
	case !st.notifies:
	case st.grant != nil && st.line.first != nil:
		st.grant.sendSignals()
	case st.crowd != nil && (st.floor == nil && st.line.first != nil || st.floor != nil && st.contender.queued()):
		for _, gr := range st.crowd.grants {
			gr.sendSignals()
		}
	}
}

// answer gives a record to the calls that wait for one: those in line, which
// leave it, and the one that contends.
//
// Only those of the first joins calls get it, which had joined before the
// record was looked for, or could be kept. A later call may have begun when the
// record was forgotten already, so it looks for itself.
func (st *standing) answer(record string, joins uint32) {
	if f := st.floor; f != nil && st.grant == nil && f.grant == nil && f.among(joins) {
		f.patience.Recall.learn(record)
	}
	st.line.tell(ErrRecorded, func(w *Turn) bool { return w.among(joins) && w.patience.Recall.learn(record) })
}

// idle returns the grant that is idle, or nil.
func (st *standing) idle() *grant {
	if st.floor != nil {
		return nil
	}
	return st.grant
}

// known is [gate.known].
func (st *standing) known(now time.Time) (r Refusal, fault error) {
	seen := st.contender.seen
	r.Expected = st.line.expect()
	switch {
	case st.grant != nil:
		r.Holder, r.Remaining = st.grant.heldBy(now)
	case !seen.at.IsZero():
		r.Holder, r.Remaining = seen.holder, seen.left(now)
	case st.crowd != nil:
		r.Remaining = st.crowd.lasts(now)
	}
	return r, st.contender.fault
}

// A line is the queue at a gate, with the pace at which its turns come. The
// gate's mutex guards it.
type line struct {
	list
	pace  pace
	joins uint32 // calls that have joined the gate, see [spot]
}

// expect returns how long the turns in line and one more will take, or 0 if
// that is not known.
func (l *line) expect() time.Duration { return l.pace.expect(l.turns() + 1) }

// dequeue takes w out of the line, and tells it that it was given something.
func (l *line) dequeue(w *Turn) {
	l.remove(w)
	w.given <- struct{}{} // buffered, and sent once: never blocks
}

// tell ends the wait of those turns with a verdict.
func (l *line) tell(verdict error, those func(w *Turn) bool) {
	for w := l.first; w != nil; {
		next := w.next
		if those(w) {
			w.verdict = verdict
			l.dequeue(w)
		}
		w = next
	}
}

// tellOnce is tell for those with one attempt.
func (l *line) tellOnce(verdict error, those func(w *Turn) bool) {
	if l.once > 0 {
		l.tell(verdict, func(w *Turn) bool { return w.patience.Once && those(w) })
	}
}

// A list is a row of turns. A turn can leave from the middle.
type list struct {
	first, last *Turn
	length      int
	shared      int // how many of them may be on the key together
	alone       int // how many must be alone on it
	once        int // how many have one attempt
}

// A spot is where a turn stands: in the line of its gate, or once it has begun,
// among the turns that are on its grant. The gate's mutex guards it. Once the
// turn has begun, the grant's mutex guards prev, next, listed, onFrom and
// halfTold.
type spot struct {
	prev, next *Turn
	order      uint32        // of the calls that joined the gate; 0: of a group
	listed     bool          // it is in a list
	halfTold   bool          // half of its MaxHold was reported
	onFrom     time.Duration // when the turn began, counted from the begin of the tenure
	entered    *grant        // the grant that the turn was given without the floor
	// given has one signal when the turn is given the floor, or a grant
	// without it, or a verdict. The channel is buffered, made anew each time
	// the turn joins the line, and nil if the turn never stood in line.
	given chan struct{}
	// verdict is what ends the wait in line, as the try of another turn has
	// told. It is set before the signal, and read after it.
	verdict error
}

// among reports whether the turn is one of the first joins calls. The counts
// may wrap.
func (s *spot) among(joins uint32) bool { return int32(joins-s.order) >= 0 }

func (l *list) push(w *Turn) { l.insert(w, l.last, nil) }

func (l *list) pushFront(w *Turn) { l.insert(w, nil, l.first) }

// insert puts w between two neighbours. nil is an end of the list.
func (l *list) insert(w, prev, next *Turn) {
	w.listed = true
	l.join(prev, w)
	l.join(w, next)
	l.count(w, 1)
}

func (l *list) remove(w *Turn) {
	l.join(w.prev, w.next)
	w.prev, w.next, w.listed = nil, nil, false
	l.count(w, -1)
}

// join makes two turns neighbours, or one of them an end of the list.
func (l *list) join(prev, next *Turn) {
	if prev == nil {
		l.first = next
	} else {
		prev.next = next
	}
	if next == nil {
		l.last = prev
	} else {
		next.prev = prev
	}
}

func (l *list) count(w *Turn, n int) {
	l.length += n
	switch {
	case w.shared():
		l.shared += n
	case w.set.Limit == 0:
		l.alone += n
	}
	if w.patience.Once {
		l.once += n
	}
}

// all returns the turns of the list.
func (l *list) all() (all []*Turn) {
	for t := l.first; t != nil; t = t.next {
		all = append(all, t)
	}
	return all
}

// turns returns how many turns there will be, one after the other. Shared ones
// come together.
func (l *list) turns() int { return l.length - l.shared + min(l.shared, 1) }

// pace estimates the interval between turns at a gate: the mean over two
// windows, the current one and the last one before it that had any turns. So a
// slow phase is forgotten as soon as turns are quick again.
type pace struct {
	last  time.Time // when the latest turn began
	since time.Time // when the current window began
	seen  int       // samples in all, up to paceTrust

	// current is of this window, earlier of the last one that had any turns.
	current, earlier struct {
		turns int
		took  time.Duration
	}
}

const (
	paceWindow = 500 * time.Millisecond
	paceTrust  = 4 // samples before a call is refused because of them
)

// began records the begin of a turn whose call joined at the given time. If the
// call was already waiting when the previous turn began, the time between the
// two beginnings is one turn, which includes all that other processes do in
// between.
func (p *pace) began(now, joined time.Time) {
	if !p.last.IsZero() && !joined.After(p.last) {
		p.add(now, now.Sub(p.last))
	}
	p.last = now
}

// ended records the length of a turn that ends with nobody in line.
func (p *pace) ended(now time.Time) { p.add(now, now.Sub(p.last)) }

func (p *pace) add(now time.Time, took time.Duration) {
	if now.Sub(p.since) > paceWindow {
		if p.current.turns > 0 {
			p.earlier = p.current
		}
		p.since, p.current.turns, p.current.took = now, 0, 0
	}
	p.current.turns++
	p.current.took += took
	p.seen = min(p.seen+1, paceTrust)
}

// expect returns how long n turns will take, or 0 if that is not known.
func (p *pace) expect(n int) time.Duration {
	turns := p.current.turns + p.earlier.turns
	if p.seen < paceTrust || turns == 0 {
		return 0
	}
	return time.Duration(n) * ((p.current.took + p.earlier.took) / time.Duration(turns))
}
