package turns

import (
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// spares are the unused gates that are kept, each for one to two times
// limits.Busy. One timer serves all of them, because a timer for each would
// wake a process that sleeps between its turns. There is no timer while there
// are no such gates.
type spares struct {
	mu       sync.Mutex // guards what follows, with nothing locked inside
	old, new []*gate    // came before the last turn, and since
	sweeps   bool       // a timer is set, or its sweep runs
}

// add takes gt in. sweep must call turn.
func (l *spares) add(gt *gate, sweep func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.new = append(l.new, gt)
	if !l.sweeps {
		l.sweeps = true
		time.AfterFunc(limits.Busy, sweep)
	}
}

// turn returns the gates that came before the last turn. It sets the timer again
// if others are left.
func (l *spares) turn(sweep func()) (over []*gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	over, l.old, l.new = l.old, l.new, nil
	l.sweeps = len(l.old) > 0
	if l.sweeps {
		time.AfterFunc(limits.Busy, sweep)
	}
	return over
}
