package turns

import (
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// A tenure is the sequence of turns on one grant. It knows the current turn,
// the number of turns so far, and the next event of the turn. It does no I/O
// and is guarded by the mutex of its grant.
//
// Invariant: turn and cooling are never both set. halfAt and holdEnd are zero
// unless turn is set. coolUntil is zero unless cooling is set.
type tenure struct {
	since     time.Time // when the grant was acquired
	begun     int       // turns so far, with the current one
	last      int       // the number of the last turn
	turn      *Turn     // nil between turns
	halfAt    time.Time // when half of MaxHold is over; zero: no limit, or reported
	holdEnd   time.Time // when MaxHold is over; zero: no limit
	cooling   *Turn     // a turn that has ended, whose key WithMinHold keeps
	coolUntil time.Time
}

// newTenure returns a tenure of full length.
func newTenure(now time.Time) tenure { return tenure{since: now, last: limits.TenureTurns} }

// begin starts t's turn and returns its number, from 1. A maxHold of 0 is no
// limit.
func (te *tenure) begin(t *Turn, maxHold time.Duration, now time.Time) (number int) {
	te.turn, te.halfAt, te.holdEnd = t, time.Time{}, time.Time{}
	te.begun++
	if maxHold > 0 {
		te.halfAt, te.holdEnd = now.Add(maxHold/2), now.Add(maxHold)
	}
	return te.begun
}

// end ends t's turn. It reports false if it was not t's turn.
func (te *tenure) end(t *Turn) bool {
	if te.turn != t {
		return false
	}
	te.turn, te.halfAt, te.holdEnd = nil, time.Time{}, time.Time{}
	return true
}

// cool begins the cooldown of t, whose turn has just ended, until the given time.
func (te *tenure) cool(t *Turn, until time.Time) { te.cooling, te.coolUntil = t, until }

// endCooldown ends the cooldown. The result is its turn, or nil if there is none.
func (te *tenure) endCooldown() *Turn {
	t := te.cooling
	te.cooling, te.coolUntil = nil, time.Time{}
	return t
}

// open reports whether the tenure has room for another turn.
func (te *tenure) open(now time.Time) bool {
	return te.begun < te.last && now.Sub(te.since) < limits.TenureTime
}

// shorten lets the tenure end after the turns of the calls that wait now.
func (te *tenure) shorten(waiting int) { te.last = min(te.last, max(te.begun, 1)+waiting) }

// due returns when the next event of the tenure is due; zero: never.
func (te *tenure) due() time.Time {
	switch {
	case te.cooling != nil:
		return te.coolUntil
	case !te.halfAt.IsZero():
		return te.halfAt
	}
	return te.holdEnd
}

// A tenureEvent is something that is due in a tenure.
type tenureEvent int

const (
	nothingDue  tenureEvent = iota
	halfDue                 // half of MaxHold is over
	maxHoldDue              // all of it is
	cooldownDue             // the cooldown is over
)

// next returns the event that is due now, and its turn. It returns halfDue and
// cooldownDue once. maxHoldDue takes precedence over halfDue and stays due, because
// the caller ends the grant.
func (te *tenure) next(now time.Time) (tenureEvent, *Turn) {
	switch {
	case te.cooling != nil && !now.Before(te.coolUntil):
		return cooldownDue, te.endCooldown()
	case !te.holdEnd.IsZero() && !now.Before(te.holdEnd):
		return maxHoldDue, te.turn
	case !te.halfAt.IsZero() && !now.Before(te.halfAt):
		te.halfAt = time.Time{}
		return halfDue, te.turn
	}
	return nothingDue, nil
}

// members are the turns on a shared grant. Any number of them are on it at
// once. A grant that is not shared has none of this.
//
// Invariant: a turn is in on exactly while it is on. Such a turn is counted by
// inside, and so is a turn that was let in and has not begun.
type members struct {
	inside int // guarded by the gate's mutex

	// The grant's mutex guards what follows.
	on     list
	lookAt time.Time // when to look at the MaxHold of all; zero: never
}

// begin starts t's turn. It reports whether lookAt has changed.
func (m *members) begin(t *Turn, now time.Time) (changed bool) {
	m.on.push(t)
	t.began, t.halfTold = now, false
	if t.set.MaxHold == 0 {
		return false
	}
	at := now.Add(t.set.MaxHold / 2)
	if !m.lookAt.IsZero() && !at.Before(m.lookAt) {
		return false
	}
	m.lookAt = at
	return true
}

// end ends t's turn. It reports false if it was not on.
func (m *members) end(t *Turn) bool {
	if !t.inLine {
		return false
	}
	m.on.remove(t)
	return true
}

// next is [tenure.next] for the turn whose event is due first. It looks at all
// of them, which is rare.
func (m *members) next(now time.Time) (event tenureEvent, due *Turn) {
	if m.lookAt.IsZero() || now.Before(m.lookAt) {
		return nothingDue, nil
	}
	m.lookAt = time.Time{}
	for t := m.on.first; t != nil; t = t.next {
		if t.set.MaxHold == 0 {
			continue
		}
		half, end := t.began.Add(t.set.MaxHold/2), t.began.Add(t.set.MaxHold)
		at := end
		switch {
		case !now.Before(end):
			m.lookAt = now // there may be more
			return maxHoldDue, t
		case t.halfTold:
		case !now.Before(half):
			t.halfTold, m.lookAt = true, now
			return halfDue, t
		default:
			at = half
		}
		if m.lookAt.IsZero() || at.Before(m.lookAt) {
			m.lookAt = at
		}
	}
	return nothingDue, nil
}
