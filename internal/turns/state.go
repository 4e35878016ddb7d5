package turns

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

// State describes one key that calls of this process want, as far as the
// process knows it.
type State struct {
	Key     string
	Holds   []HoldState
	Waiting int
	Waits   []WaitState // the first of them

	Blocker    locker.Holder // the other holder, when this process last asked
	BlockedFor time.Duration
}

// HoldState is a call that holds its key, or runs on after it lost it.
type HoldState struct {
	Occupant Occupant // nil for a moment after the loss of a turn that has just begun
	Name     string
	Owner    string
	Since    time.Time
	MaxHold  time.Duration
	Until    time.Time
	Err      error // why the grant was lost; nil while it is held
	Cooldown bool  // the turn has ended, and its cooldown is on
	Limit    int   // how many may own the key with it, see [Settings]
}

// WaitState is a call that waits for its key.
type WaitState struct {
	Name  string
	Since time.Time
	Until time.Time
}

// States returns the keys that calls of this process hold and wait for, in no
// order. It names at most maxWaits waits of each key. It takes the lock of
// one gate at a time for a moment.
func (e *Engine) States(now time.Time, maxWaits int) []State {
	var all []State
	for _, gt := range e.gates.all() {
		if s := gt.state(now, maxWaits); len(s.Holds) > 0 || s.Waiting > 0 {
			all = append(all, s)
		}
	}
	return all
}

func (gt *gate) state(now time.Time, maxWaits int) State {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	s := State{Key: gt.key}
	for _, t := range gt.strays {
		s.Holds = append(s.Holds, t.grant.state(t))
	}
	wait := func(t *Turn) {
		if s.Waiting++; s.Waiting <= maxWaits {
			s.Waits = append(s.Waits, WaitState{Name: t.set.Name, Since: t.joined, Until: t.patience.Until})
		}
	}
	if t := gt.floor; t != nil {
		hold, holds := HoldState{}, false
		if gt.grant != nil {
			hold = gt.grant.state(t)
			holds = hold.Occupant != nil
		}
		if holds {
			s.Holds = append(s.Holds, hold)
		} else {
			wait(t)
		}
	}
	if gt.crowd != nil {
		for _, gr := range gt.crowd.grants {
			s.Holds = append(s.Holds, gr.states()...)
		}
	}
	for t := gt.line.first; t != nil; t = t.next {
		wait(t)
	}
	if seen := gt.contender.seen; len(s.Holds) == len(gt.strays) && !seen.at.IsZero() {
		s.Blocker, s.BlockedFor = seen.holder, seen.left(now)
	}
	return s
}

// state describes t, which has or had its turn on gr.
func (gr *grant) state(t *Turn) HoldState {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.stateLocked(t)
}

// states describes the turns on a grant with a limit, and the one that cools down.
func (gr *grant) states() (all []HoldState) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	on := gr.everyone()
	if gr.tenure.cooling != nil {
		on = append(on, gr.tenure.cooling)
	}
	for _, t := range on {
		if t.occupant != nil {
			all = append(all, gr.stateLocked(t))
		}
	}
	return all
}

// stateLocked is state. gr.mu is held.
func (gr *grant) stateLocked(t *Turn) HoldState {
	return HoldState{
		Occupant: t.occupant, Name: t.set.Name, Owner: gr.bid.claim.Owner, Since: t.began, MaxHold: t.set.MaxHold,
		Until: gr.trust.mono, Err: gr.causeOf(t), Cooldown: gr.tenure.cooling == t, Limit: t.set.Limit,
	}
}
