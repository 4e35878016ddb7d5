package turns

import "time"

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

// tell ends the wait of those turns with a verdict.
func (l *line) tell(verdict error, those func(w *Turn) bool) {
	for w := l.first; w != nil; {
		next := w.next
		if those(w) {
			l.remove(w)
			w.given <- verdict // buffered, and sent once: never blocks
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
	// given has nil when the turn is given the floor, or a grant without it,
	// or the verdict that ends its wait in line, as the try of another turn has
	// told. The channel is buffered, made anew each time the turn joins the
	// line, and nil if the turn never stood in line.
	given chan error
}

// among reports whether the turn is one of the first joins calls. The counts
// may wrap.
func (s *spot) among(joins uint32) bool { return int32(joins-s.order) >= 0 }

func (l *list) push(w *Turn) {
	w.prev, w.next, w.listed = l.last, nil, true
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.count(w, 1)
}

func (l *list) pushFront(w *Turn) {
	w.prev, w.next, w.listed = nil, l.first, true
	if l.first == nil {
		l.last = w
	} else {
		l.first.prev = w
	}
	l.first = w
	l.count(w, 1)
}

func (l *list) remove(w *Turn) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
	l.count(w, -1)
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
