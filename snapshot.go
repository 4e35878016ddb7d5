package guard

import (
	"bytes"
	"runtime"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
)

// LocalState is the state of one key that calls of this process want. It tells
// the calls that hold the key and the calls that wait for it. [KeyState] is the
// state of a key in the store.
type LocalState struct {
	Key string

	Holds   []HoldState // the calls that hold the key, if any, and earlier calls that run on after they lost it
	Waiting int         // how many calls of this process wait
	Waits   []WaitState // the first 100 of them; the first one asks the store

	// Blocker is the other holder that this process saw when it last asked.
	// BlockedFor is how long that lease can last from now unless it is renewed.
	// Both are zero if a call here holds the key, or no call has asked.
	Blocker    Holder
	BlockedFor time.Duration
}

// HoldState is a call that holds its key, until the release is answered, or
// runs on after it lost it.
type HoldState struct {
	Name     string        // of its guard, see WithName
	Owner    string        // owner id in the store
	Since    time.Time     // when its turn began
	MaxHold  time.Duration // 0: no limit
	Until    time.Time     // the moment at which the lease ends here unless it is renewed
	Err      error         // why the lease was lost; nil while it is held
	Mode     string        // "shared" or "permits"; "" is exclusive
	Cooldown bool          // its function has returned, and WithMinHold keeps the key taken
	Idle     bool          // no function runs since Since, and WithLinger keeps the key for the next call
	Stack    string        // of its goroutine; see Snapshot
}

// WaitState is a call that waits for its key.
type WaitState struct {
	Name  string
	Since time.Time
	Until time.Time // the moment at which its MaxWait ends; zero: no limit, as in Lead
}

const snapshotWaits = 100

// Snapshot returns the keys that calls of this process hold and wait for, in no
// order. It covers every guard of g's family. It asks nobody but this process.
// See [Guard.List] for the store. It returns nil if g stands for a default
// guard that is not there.
//
// The keys by which leaders hear requests of [Guard.AskLeader] are left out.
//
// Snapshot is for a debugging page. It takes one gate's lock at a time for a
// moment, and is safe for concurrent use.
//
// With stacks it finds the stack of each hold that has lasted longer than half
// of its MaxHold. It also finds that of each hold that runs on after its loss.
// This stops the whole process for some milliseconds. It finds functions that
// run under a verb such as Do. It does not find a lease of Acquire, which
// belongs to no goroutine.
func (g *Guard) Snapshot(stacks bool) []LocalState {
	g, err := g.resolve()
	if err != nil {
		return nil
	}
	now := time.Now()
	var all []LocalState
	var long []longHold
	for _, s := range g.family.engine.States(now, snapshotWaits) {
		if isRequestKey(s.Key) {
			continue
		}
		local := localState(s)
		all = append(all, local)
		for i, h := range local.Holds {
			o, told := s.Holds[i].Occupant.(occupant)
			if told && !h.Cooldown && (h.Err != nil || h.MaxHold > 0 && now.Sub(h.Since) > h.MaxHold/2) {
				long = append(long, longHold{&local.Holds[i], o.lease})
			}
		}
	}
	if stacks && len(long) > 0 {
		findStacks(long)
	}
	return all
}

// localState converts s to the types of this package.
func localState(s turns.State) LocalState {
	local := LocalState{Key: s.Key, Waiting: s.Waiting, Blocker: s.Blocker, BlockedFor: s.BlockedFor}
	for _, h := range s.Holds {
		local.Holds = append(local.Holds, HoldState{
			Name: h.Name, Owner: h.Owner, Since: h.Since, MaxHold: h.MaxHold, Until: h.Until, Err: h.Err,
			Cooldown: h.Cooldown, Idle: h.Idle, Mode: modeOf(h.Limit),
		})
	}
	for _, w := range s.Waits {
		if w.Until.Sub(w.Since) >= forever/2 {
			w.Until = time.Time{}
		}
		local.Waits = append(local.Waits, WaitState(w))
	}
	return local
}

// longHold is a hold whose stack is wanted.
type longHold struct {
	state *HoldState
	lease *Lease
}

// findStacks takes the stacks of all goroutines and finds those of the holds.
func findStacks(holds []longHold) {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < 64<<20 {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		for _, h := range holds {
			if bytes.Contains(stack, []byte(h.lease.frame())) {
				h.state.Stack = string(stack)
			}
		}
	}
}
