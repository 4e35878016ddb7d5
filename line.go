package guard

import "time"

// line is the queue at a gate: a list, so that a waiter can leave from the middle.
type line struct {
	first, last *waiter
	length      int
}

func (l *line) push(w *waiter) {
	w.prev, w.next, w.inLine = l.last, nil, true
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.length++
}

func (l *line) pushFront(w *waiter) {
	w.prev, w.next, w.inLine = nil, l.first, true
	if l.first == nil {
		l.last = w
	} else {
		l.first.prev = w
	}
	l.first = w
	l.length++
}

func (l *line) remove(w *waiter) {
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
	w.prev, w.next, w.inLine = nil, nil, false
	l.length--
}

// pace estimates the interval between turns at a gate while calls wait there: the plain mean of the first few, then a
// moving one, in which a slow turn fades.
type pace struct {
	last     time.Time // when the latest turn began
	interval time.Duration
	samples  int
}

const (
	paceWindow = 32 // turns that the mean looks back on
	paceTrust  = 4  // turns before anybody is refused by it
)

// turn notes that the turn of a call that joined at the given time begins. Time in which nobody waited does not count.
func (p *pace) turn(now, joined time.Time) {
	if !p.last.IsZero() && !joined.After(p.last) {
		p.samples = min(p.samples+1, paceWindow)
		p.interval += (now.Sub(p.last) - p.interval) / time.Duration(p.samples)
	}
	p.last = now
}

// expect returns how long n turns will take, or 0 if that is not known.
func (p *pace) expect(n int) time.Duration {
	if p.samples < paceTrust {
		return 0
	}
	return time.Duration(n) * p.interval
}
