// Package turns is the engine of package guard, which lets calls take turns on
// a key. The calls of a process that want one key meet at its gate. One of them
// contends for the key in the store. The grant that it wins is passed from turn
// to turn.
//
// The engine knows keys, turns and package locker. Package guard, the face,
// knows contexts that carry leases, options, observers, logs and requests. The
// engine knows nothing of them. All that passes between the two is in this
// file, but for [Open] and the methods of [Engine], the methods of [Turn],
// [ReleaseKeys], and [Group]. Package limits has the numbers.
package turns

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// Settings are the part of the caller's settings that the engine needs. The
// values do not change while a turn uses them.
type Settings struct {
	TTL        time.Duration
	MaxWait    time.Duration
	MaxHold    time.Duration // 0: no limit
	MinHold    time.Duration // 0: none
	Linger     time.Duration // how long the key may be idle; 0: not at all
	MaxWaiters int           // in line for one key; 0: no limit
	Backoff    Backoff
	Name       string // of the guard, for people to read
	NoRenewal  bool
	Fencing    bool
	// Lead says that the turn is meant to last while others wait. Then only
	// [Turn.Want] sends a [Signal].
	Lead bool
	// Limit is how many turns may own the key at once, this one included: 0
	// for one alone, locker.NoLimit for a shared one, and never 1. Shared
	// turns have neither Fencing nor MinHold.
	//
	// Linger comes with a Limit of 0, and without MinHold and NoRenewal.
	Limit int
}

// cooldownElsewhere returns the longest time for which h keeps the key, if its
// settings are the same, as its name says. h tells when it began to wait for
// the key, and acquired the key at most our MaxWait later.
func (s *Settings) cooldownElsewhere(h locker.Holder, now time.Time) time.Duration {
	if s.MinHold == 0 || h.Since.IsZero() || h.Name != s.Name {
		return 0
	}
	left := s.MinHold + s.MaxWait - now.Sub(h.Since)
	return min(max(0, left), s.MinHold)
}

// Patience is how long a call waits for one key.
type Patience struct {
	Start, Until time.Time
	Once         bool    // one try, no wait
	Recall       *Recall // for a call that would rather have the key's record; else nil
}

// An Occupant is the caller whose turn it is. Its methods are called without a
// lock held. They run in a goroutine of the engine's for which [Engine.Close]
// waits, if nothing else is said.
type Occupant interface {
	// Lost tells that the turn's grant was lost, and why. Lost may come
	// before Attach has returned. [Turn.Token] and [Turn.Begin], when they
	// find the loss, and [Engine.Close] call it in their caller's goroutine.
	Lost(cause error)
	// HalfTime tells that half of MaxHold is over.
	HalfTime()
}

// Events hears what the engine does. Its methods are called without a lock held
// and must be safe for concurrent use. A nil Occupant means that nobody has a
// turn.
type Events interface {
	// Traceparent returns the trace that a new claim names, or "". A release
	// that queues the claim of a waiter calls it in its own goroutine, with
	// the ctx of the waiter.
	Traceparent(ctx context.Context) string
	// Renewed tells how a try to renew the lease on key went.
	Renewed(o Occupant, key string, r Renewal)
	// Outage tells of the begin or the end of an outage, which a request for
	// key has found out. The request belongs to o, or to ctx if o is nil.
	Outage(ctx context.Context, o Occupant, key string, n News)
	// Unconfirmed tells that a key could not be released after its
	// cooldown.
	Unconfirmed(o Occupant, err error)
}

// A Renewal says how a try to renew a lease went.
type Renewal struct {
	Err  error         // nil, ErrLeaseLost or ErrUnavailable of package locker
	Left time.Duration // how long the lease could still be trusted when the answer came
	Late bool          // Left was less than half of what a fresh lease has, see trust.half
}

// News is the begin or the end of an outage that is worth a log line.
type News struct {
	Over     bool          // answers are there again; otherwise they are missing since now
	Err      error         // of a missing answer; nil if Over and another News has told the begin
	Lasted   time.Duration // if Over: how long they were missing
	Unlogged int           // outages that ended without a News, and are told by this one
}

// The errors of a wait beside those of package locker.
var (
	ErrEnded = errors.New("turns: the context of the wait ended")
	ErrHeld  = errors.New("turns: the key is held")            // with a Refusal
	ErrFull  = errors.New("turns: waiting for it is hopeless") // with a Refusal
)

// errNoWait ends a wait without the key, and becomes a Refusal.
var errNoWait = errors.New("guard: would have to wait")

// A Refusal describes the key that a call goes without.
type Refusal struct {
	Ahead     int           // calls in line, if they are too many; 0: they would take too long
	Expected  time.Duration // how long the next call must expect to wait; 0: unknown
	Cooldown  time.Duration // how long MinHold alone keeps the key taken; 0: not, or unknown
	Holder    locker.Holder // zero: unknown
	Remaining time.Duration // until the holder's lease ends unless it is renewed; 0: unknown
	Here      bool          // one call of this process held the key during the whole wait
}

// ErrRecorded ends a wait because the key has a record, which the call's
// [Recall] has now.
var ErrRecorded = errors.New("turns: the key has a record")

// A Recall is what a call brings to its turn if it would rather have the key's
// record. The locker keeps records, and the turn has no MinHold and no
// Limit. A Recall is for one use.
type Recall struct {
	record   string        // what was found instead of a turn; guarded by the gate's mutex
	joined   bool          // the call had to wait for it; likewise
	keep     locker.Record // what the release keeps; the goroutine's that ends the turn
	result   bool          // keep is a result; likewise
	recorded bool          // the store has confirmed it; likewise
}

// Found returns the record that ended the wait, and whether the call waited for
// it. Found comes after a Take that returned ErrRecorded.
func (r *Recall) Found() (record string, joined bool) { return r.record, r.joined }

// Keep makes the end of the turn keep a record: a result, or that there is
// none. Keep comes before End. Another Keep or an Unmark may follow it.
func (r *Recall) Keep(record locker.Record, result bool) { r.keep, r.result = record, result }

// answered reports whether the call, if it recalls, has got a record. The
// gate's mutex is held.
func (r *Recall) answered() bool { return r != nil && r.record != "" }

// learn gives a record to the call that waited, and reports whether it waits
// for one. The gate's mutex is held.
func (r *Recall) learn(record string) bool {
	if r != nil && r.record == "" {
		r.record, r.joined = record, true
	}
	return r != nil
}

// keeps reports whether the end of the turn keeps a record.
func (r *Recall) keeps() bool { return r != nil && r.keep.Value != "" }

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
	Idle     bool  // nobody has a turn since Since, and the key stays for the next call
	Limit    int   // how many may own the key with it, see [Settings]
}

// WaitState is a call that waits for its key.
type WaitState struct {
	Name  string
	Since time.Time
	Until time.Time
}

// Backoff is full jitter over an exponential: "Exponential Backoff And Jitter",
// AWS Architecture Blog, 2015.
type Backoff struct{ Initial, Max time.Duration }

// Pause returns the pause after the n-th try (from 0) that got nowhere.
func (b Backoff) Pause(n int) time.Duration {
	d := b.Max
	if n < 30 && b.Initial < b.Max>>n {
		d = b.Initial << n
	}
	return limits.Jitter(d) + 1
}

// look returns the pause before the next look of a claim that is queued. offer
// is how long the key would be offered to the claim. A message ends the pause
// early. If the message is lost, the look must come while the offer lasts. A
// look at least every locker.LookEvery keeps the claim alive in the store's
// queue.
//
// A claim that rests is sure to be told, and looks in time for the store, which
// counts the rest from its own clock.
func (b Backoff) look(offer, rest time.Duration) time.Duration {
	longest := max(min(b.Max, locker.LookEvery, offer/2), rest-locker.LookEvery)
	return longest/2 + limits.Jitter(longest/2+1)
}

// A Signal tells a caller that another call waits for the keys of its turns.
// Its zero value is ready for use, and its methods are safe for concurrent use.
type Signal struct {
	once sync.Once
	sent chan struct{} // made by C, closed by send
	came atomic.Bool
	over atomic.Bool
}

// C returns the channel by whose close s is sent. The first call runs ask,
// which lets the turns Notify s. C does not block for I/O.
func (s *Signal) C(ask func()) <-chan struct{} {
	s.once.Do(func() {
		s.sent = make(chan struct{})
		ask()
	})
	return s.sent
}

// End makes the turns forget s, before they have ended.
func (s *Signal) End() { s.over.Store(true) }

func (s *Signal) send() {
	if !s.came.Swap(true) {
		close(s.sent)
	}
}

// signals are those of a turn. The grant's mutex guards them.
type signals struct {
	all    []*Signal
	wanted bool // by Want: those that are added later are sent at once
}

// add adds s, in place of those that are over.
func (ss *signals) add(s *Signal) {
	ss.all = append(slices.DeleteFunc(ss.all, func(other *Signal) bool { return other.over.Load() }), s)
}

func (ss *signals) send() {
	for _, s := range ss.all {
		s.send()
	}
	ss.all = nil
}
