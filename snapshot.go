package guard

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// GateState is what this process knows of one key that its calls want: who of them holds it, and who waits.
type GateState struct {
	Key string

	Holds   []HoldState // one call that holds the key, or none; and those before it that run on after they lost it
	Waiting int         // how many calls of this process wait
	Waiters []WaitState // the first 100 of them; the first is the one that asks the store

	// Blocker is who else held the key when this process last asked, and BlockedFor how long that can last unless it is
	// renewed, as of now. Zero if a call here holds the key, or nobody has asked.
	Blocker    Holder
	BlockedFor time.Duration
}

// HoldState is a call that holds its key, or runs on after it lost it.
type HoldState struct {
	Name    string        // of its guard, see WithName
	Owner   string        // owner id in the store
	Since   time.Time     // when its turn began
	MaxHold time.Duration // 0: no limit
	Until   time.Time     // how long the lease can be trusted unless it is renewed
	Err     error         // why the lease was lost; nil while it is held
	Kept    bool          // its function has returned, and WithMinHold keeps the key taken
	Stack   string        // of its goroutine; see Snapshot
}

// WaitState is a call that waits for its key.
type WaitState struct {
	Name  string
	Since time.Time
	Until time.Time // when its MaxWait ends
}

const snapshotWaiters = 100

// Snapshot returns what the calls of this process hold and wait for, in every guard of g's family, in no order. It asks
// nobody but this process: see [Guard.List] for the store. It is for a debugging page, takes one gate's lock at a time for
// a moment, and is safe for concurrent use. It returns nil if g stands for a default guard that is not there.
//
// With stacks it finds the stack of each hold that has lasted longer than half of its MaxHold, and of each that runs on
// after its loss; that stops the whole process for some milliseconds. It finds functions that run under a verb such as Do, but
// not a lease of Acquire, which belongs to no goroutine.
func (g *Guard) Snapshot(stacks bool) []GateState {
	g, err := g.resolve()
	if err != nil {
		return nil
	}
	now := time.Now()
	var all []GateState
	var long []longHold
	for _, gt := range g.family.gates.all() {
		s, leases := gt.snapshot(now)
		if len(s.Holds) == 0 && s.Waiting == 0 {
			continue
		}
		all = append(all, s)
		for i, h := range s.Holds {
			if leases[i] != nil && !h.Kept && (h.Err != nil || h.MaxHold > 0 && now.Sub(h.Since) > h.MaxHold/2) {
				long = append(long, longHold{&s.Holds[i], leases[i]})
			}
		}
	}
	if stacks && len(long) > 0 {
		findStacks(long)
	}
	return all
}

// snapshot returns the state of the gate, and the lease of each of its holds.
func (gt *gate) snapshot(now time.Time) (s GateState, leases []*Lease) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	s.Key = gt.key
	for _, t := range gt.lost {
		s.Holds, leases = append(s.Holds, t.grant.state(t)), append(leases, t.grant.leaseOf(t))
	}
	first := gt.floor
	if gr := gt.grant; gr != nil && first != nil && gr.leaseOf(first) != nil {
		s.Holds, leases = append(s.Holds, gr.state(first)), append(leases, gr.leaseOf(first))
		first = nil
	}
	if first != nil {
		s.wait(first)
	}
	for t := gt.line.first; t != nil; t = t.next {
		s.wait(t)
	}
	if gt.grant == nil && !gt.seen.at.IsZero() {
		s.Blocker, s.BlockedFor = gt.seen.holder, max(0, gt.seen.remaining-now.Sub(gt.seen.at))
	}
	return s, leases
}

func (s *GateState) wait(t *turn) {
	if s.Waiting++; s.Waiting <= snapshotWaiters {
		s.Waiters = append(s.Waiters, WaitState{Name: t.guard.name, Since: t.joined, Until: t.until})
	}
}

// leaseOf returns the lease that t has under gr, nil before it has one.
func (gr *grant) leaseOf(t *turn) *Lease {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return t.lease
}

// state describes t, which has a lease under gr.
func (gr *grant) state(t *turn) HoldState {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	h := HoldState{
		Name: t.guard.name, Owner: gr.claim.Owner, MaxHold: t.guard.maxHold, Until: gr.trust.mono, Err: gr.cause, Kept: gr.tenure.kept == t,
	}
	if t.lease != nil {
		h.Since = t.lease.hold.began
	}
	return h
}

// stray keeps the turn of gr, which is lost, in sight until its function has returned; gt.mu is held.
func (gt *gate) stray(gr *grant) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if t := gr.tenure.turn; t != nil { // nil: the function has returned already
		gt.lost = append(gt.lost, t)
	}
}

// returned forgets t, whose turn has ended.
func (gt *gate) returned(t *turn) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if i := slices.Index(gt.lost, t); i >= 0 {
		gt.lost = slices.Delete(gt.lost, i, i+1)
	}
}

// longHold is a hold whose stack is wanted.
type longHold struct {
	state *HoldState
	lease *Lease
}

// findStacks takes the stacks of all goroutines and finds those of the holds: each has a frame of the method that runs its
// function, on the lease's address.
func findStacks(holds []longHold) {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= 64<<20 {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
		for _, h := range holds {
			if bytes.Contains(stack, fmt.Appendf(nil, "guard.(*Lease).run(%p,", h.lease)) {
				h.state.Stack = string(stack)
			}
		}
	}
}
