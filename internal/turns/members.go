package turns

import (
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

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

// mayEnter reports whether another turn may enter a shared grant. The time
// bounds how long other processes wait if their message is lost.
func (gr *grant) mayEnter() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	return gr.cause == nil && now.Sub(gr.tenure.since) < limits.TenureTime && gr.trust.enough(now)
}

// isOn reports whether t has its turn on gr. gr.mu is held.
func (gr *grant) isOn(t *Turn) bool {
	if gr.members != nil {
		return t.inLine
	}
	return gr.tenure.turn == t
}

// someone returns a turn that is on, or nil. gr.mu is held.
func (gr *grant) someone() *Turn {
	if gr.members != nil {
		return gr.members.on.first
	}
	return gr.tenure.turn
}

// everyone returns the turns that are on. gr.mu is held.
func (gr *grant) everyone() (all []*Turn) {
	if gr.members == nil {
		if t := gr.tenure.turn; t != nil {
			all = append(all, t)
		}
		return all
	}
	for t := gr.members.on.first; t != nil; t = t.next {
		all = append(all, t)
	}
	return all
}

// beginMember is begin for a shared grant. gr.mu is held.
func (gr *grant) beginMember(t *Turn, now time.Time) {
	gr.tenure.begun++
	t.grant, t.number = gr, gr.tenure.begun
	if gr.members.begin(t, now) || gr.timer == nil {
		gr.arm(now)
	}
}

// endMember is endTurn for a shared grant. A turn that was not on any more was
// expelled.
func (gr *grant) endMember(t *Turn) (on bool, cause error) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.members.end(t), gr.cause
}

// endOneOf ends t's turn if the grant is good and others are on it too.
func (gr *grant) endOneOf(t *Turn) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.cause == nil && gr.members.on.length > 1 && gr.members.end(t)
}

// occupantOf returns who has t's turn, or nil.
func (gr *grant) occupantOf(t *Turn) Occupant {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return t.occupant
}

// expel ends the turn of t, which has lasted longer than MaxHold. The other
// members stay. If there are none, the grant is lost as one with a single turn
// is.
func (gr *grant) expel(t *Turn) {
	cause := overLong(t.set.MaxHold)
	expelled, last := gr.gate.expel(t, gr)
	switch {
	case !expelled && gr.err(t) == nil:
		gr.lose(cause)
	case !expelled: // it ended meanwhile
	default:
		if last {
			gr.discard()
		}
		if o := gr.occupantOf(t); o != nil {
			o.Lost(cause)
		}
	}
}

// endShared is End for a member of a shared grant.
func (t *Turn) endShared(alone bool) (back bool, cause error) {
	on, cause := t.grant.endMember(t)
	if !on {
		t.gate.turnReturned(t)
		return false, overLong(t.set.MaxHold)
	}
	if cause != nil {
		t.gate.turnReturned(t)
	}
	if !t.gate.exitGrant(t.grant) {
		return false, cause
	}
	if cause != nil && !leftToTTL(alone, cause) {
		t.grant.discard()
	}
	return cause == nil, cause
}
