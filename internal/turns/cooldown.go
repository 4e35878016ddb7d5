package turns

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// A turn with MinHold that has ended keeps the floor until its minimum hold is
// over. Its end follows then.

// cooldownEnd is until when the key of t stays taken. The grant's mutex is held.
func (t *Turn) cooldownEnd() time.Time { return t.began.Add(t.set.MinHold) }

// cool begins the cooldown of t, which has just ended, if it is too early to
// release the key. gr.mu is held.
func (gr *grant) cool(t *Turn) bool {
	now := time.Now()
	if t.set.MinHold == 0 || t.occupant == nil || gr.cause != nil || !now.Before(t.cooldownEnd()) {
		return false
	}
	gr.tenure.cool(t, t.cooldownEnd())
	gr.gate.engine.gates.retain(gr.gate) // until cooledDown or lose
	gr.arm(now)
	return true
}

// cooledDown ends the turn of t, whose cooldown is over, as any turn ends. The
// caller is a goroutine of the grant's timer.
func (t *Turn) cooledDown() {
	e := t.gate.engine
	if !e.Enter() { // closed: the key is left to its TTL
		t.grant.lose(errClosedUnder)
		e.gates.leave(t.gate)
		return
	}
	defer t.Leave()
	if t.gate.handOff(t, time.Now()) {
		return
	}
	err := t.ReleaseKey(t.ctx)
	if err != nil && !errors.Is(err, locker.ErrLeaseLost) {
		t.events.Unconfirmed(t.occupant, err)
	}
}

// loseCooling ends the grants that cool down when no call is left, and leaves
// their keys to the TTL.
func (e *Engine) loseCooling(ctx context.Context) {
	for _, gt := range e.gates.all() {
		for _, gr := range gt.grants() {
			gr.lose(errClosedUnder)
			gr.awaitRenewal(ctx)
		}
	}
}

// cooldown returns how long MinHold alone keeps the key that t goes without, or 0.
// The result is exact for a turn of this process. For another process that does
// the same work it may be too long, but not too short.
func (t *Turn) cooldown(holder locker.Holder, now time.Time) time.Duration {
	if gr := t.gate.holding(); gr != nil {
		return gr.cooldown(now)
	}
	return t.set.cooldownElsewhere(holder, now)
}

// cooldown returns how long the turn on gr will keep the key at least.
func (gr *grant) cooldown(now time.Time) time.Duration {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t := gr.tenure.turn
	if gr.tenure.cooling != nil {
		t = gr.tenure.cooling
	}
	switch {
	case t == nil:
		return 0
	case t.occupant == nil: // the turn has just begun
		return t.set.MinHold
	}
	return max(0, t.cooldownEnd().Sub(now))
}

// cooldownElsewhere returns the longest time for which h keeps the key, if its
// settings are the same, as its name says. h tells when it began to wait for
// the key. It acquired the key at most our MaxWait later.
func (s *Settings) cooldownElsewhere(h locker.Holder, now time.Time) time.Duration {
	if s.MinHold == 0 || h.Since.IsZero() || h.Name != s.Name {
		return 0
	}
	left := s.MinHold + s.MaxWait - now.Sub(h.Since)
	return min(max(0, left), s.MinHold)
}
