package turns

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

// An alarm says when the contender of a gate acts next. It is a state machine
// of five states and no I/O:
//
//	       begin           sleep           time
//	┌ due ──────► trying ────────► asleep ──────► (due)
//	│               │ wake          ▲  ▲ │ wake, to a time that is not later
//	│               ▼               │  └─┘
//	│            rewoken ── sleep ──┘
//	│ grant, from any state
//	└─────► offered ── take ──► due
//
// It is guarded by its gate's mutex.
type alarm struct {
	state alarmState
	at    time.Time    // asleep: until when; rewoken: when the other try is due
	offer locker.Offer // offered: what was granted
}

type alarmState int

const (
	due     alarmState = iota // to try now
	trying                    // a try, or a release that queues, is under way
	rewoken                   // as trying, and woken since it began: another try is due at a time of its own
	asleep                    // the next try is due later
	offered                   // the key was granted by another process
)

// begin notes that a try is sent.
func (a *alarm) begin() {
	if a.state != offered {
		a.state = trying
	}
}

// sleep notes that the try is over, and that the next is due at the given time.
// A wake-up or grant that arrived while the try was in flight takes precedence.
func (a *alarm) sleep(until time.Time) {
	switch a.state {
	case rewoken:
		a.state, a.at = asleep, earlier(a.at, until)
	case offered:
	default:
		a.state, a.at = asleep, until
	}
}

// wake notes that the key may be free, and that the next try is due at the given
// time at the latest. A try that begins earlier counts as that try. One that is
// under way does not.
func (a *alarm) wake(at time.Time) {
	switch a.state {
	case trying:
		a.state, a.at = rewoken, at
	case rewoken, asleep:
		a.at = earlier(a.at, at)
	default: // it will be looked at anyway
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// grant notes that the key was granted to the gate's claim.
func (a *alarm) grant(o locker.Offer) { a.state, a.offer = offered, o }

// take returns the offer if there is one, and leaves the alarm due.
func (a *alarm) take() (locker.Offer, bool) {
	if a.state != offered {
		return locker.Offer{}, false
	}
	o := a.offer
	*a = alarm{}
	return o, true
}

// left returns how long the contender must pause from now. It returns 0 or less
// if the contender must act.
func (a *alarm) left(now time.Time) time.Duration {
	if a.state == asleep {
		return a.at.Sub(now)
	}
	return 0
}
