package turns

import (
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// A tenure is the sequence of turns on one grant. The tenure knows who has a
// turn, the number of turns so far, and what is due next. A tenure does no I/O
// and is guarded by the mutex of its grant.
//
// On a shared grant any number of turns are on at once, on any other one at
// most. Between two turns nobody is on. The last one may be in its cooldown, or
// the grant is idle.
//
// Invariant: cooling and stayUntil are set only while nobody is on. lookAt is
// zero then. stayUntil is set if cooling is.
type tenure struct {
	since   time.Time // when the grant was acquired
	begun   int       // turns so far, with those that are on
	last    int       // the number of the last turn
	on      list      // the turns that have begun and not ended
	lookAt  time.Time // when half or all of a MaxHold may be over; zero: never
	cooling *Turn     // a turn that has ended, whose cooldown is on
	// stayUntil is when the cooldown ends, or without cooling when the grant
	// need not be idle any longer. It is zero otherwise, and once that is told.
	stayUntil time.Time
	longest   time.Duration // the tenure may last
}

// newTenure returns a tenure of full length.
func newTenure(now time.Time) tenure {
	return tenure{since: now, last: limits.TenureTurns, longest: limits.TenureTime}
}

// begin starts t's turn, which has the number te.begun from then on. begin
// reports whether something is due earlier now.
func (te *tenure) begin(t *Turn, now time.Time) (earlier bool) {
	te.begun++
	te.stayUntil = time.Time{}
	te.on.push(t)
	t.onFrom, t.halfTold = now.Sub(te.since), false
	half := now.Add(t.set.MaxHold / 2)
	if t.set.MaxHold == 0 || !te.lookAt.IsZero() && !half.Before(te.lookAt) {
		return false
	}
	te.lookAt = half
	return true
}

// end ends t's turn. end reports false if t was not on.
func (te *tenure) end(t *Turn) bool {
	if !t.listed {
		return false
	}
	te.on.remove(t)
	if te.on.first == nil {
		te.lookAt = time.Time{}
	}
	return true
}

// cool begins the cooldown of t, whose turn has just ended, until the given
// time.
func (te *tenure) cool(t *Turn, until time.Time) { te.cooling, te.stayUntil = t, until }

// endCooldown ends the cooldown. The result is its turn, or nil if there is
// none.
func (te *tenure) endCooldown() *Turn {
	t := te.cooling
	te.cooling, te.stayUntil = nil, time.Time{}
	return t
}

// sendSignals sends the signals of the turns that are on.
func (te *tenure) sendSignals() {
	for t := te.on.first; t != nil; t = t.next {
		if !t.set.Lead {
			t.signals.send()
		}
	}
}

// open reports whether the tenure has room for another turn. The time bounds
// how long other processes wait if their message is lost.
func (te *tenure) open(now time.Time) bool {
	return te.begun < te.last && now.Sub(te.since) < te.longest
}

// shorten lets the tenure end after the turns of the calls that wait now.
func (te *tenure) shorten(waiting int) { te.last = min(te.last, max(te.begun, 1)+waiting) }

// due returns when the next event of the tenure is due; zero: never.
func (te *tenure) due() time.Time {
	if !te.stayUntil.IsZero() {
		return te.stayUntil
	}
	return te.lookAt
}

// A tenureEvent is something that is due in a tenure.
type tenureEvent int

const (
	nothingDue  tenureEvent = iota
	halfDue                 // half of MaxHold is over
	maxHoldDue              // all of it is
	cooldownDue             // the cooldown is over
	idleDue                 // the grant was idle for long enough
)

// next returns an event that is due now, and its turn. next returns halfDue,
// cooldownDue and idleDue once. maxHoldDue takes precedence over halfDue and
// stays due, because the caller ends the turn. next looks at all turns, which
// is rare.
func (te *tenure) next(now time.Time) (event tenureEvent, due *Turn) {
	switch {
	case te.cooling != nil && !now.Before(te.stayUntil):
		return cooldownDue, te.endCooldown()
	case !te.stayUntil.IsZero() && !now.Before(te.stayUntil):
		te.stayUntil = time.Time{}
		return idleDue, nil
	case te.lookAt.IsZero() || now.Before(te.lookAt):
		return nothingDue, nil
	}
	te.lookAt = time.Time{}
	for t := te.on.first; t != nil; t = t.next {
		if t.set.MaxHold == 0 {
			continue
		}
		began := te.since.Add(t.onFrom)
		half, at := began.Add(t.set.MaxHold/2), began.Add(t.set.MaxHold)
		switch {
		case event != nothingDue: // one at a time
			at = now
		case !now.Before(at):
			event, due, at = maxHoldDue, t, now
		case t.halfTold:
		case now.Before(half):
			at = half
		default:
			event, due, t.halfTold = halfDue, t, true
		}
		if te.lookAt.IsZero() || at.Before(te.lookAt) {
			te.lookAt = at
		}
	}
	return event, due
}
