package turns

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/internal/timelimit"
	"github.com/go-lockguard/guard/locker"
)

// A Turn is one caller's time on a key: first its place at the gate, then its
// number on a grant. The zero Turn is for one [Turn.Take]. After a Take that
// succeeded the caller attaches its occupant. It then ends the turn once, by
// Drop or by End.
//
// Methods but Take, Drop, End, ReleaseKey, Discard and Leave are safe for
// concurrent use from the end of Take on.
//
// Invariant: grant is nil until the turn begins, and does not change
// afterwards. occupant is nil until Attach. The fields of tried do not change
// after Take, and waits and probe are unset then. entered is nil or, once the
// turn has begun, grant.
type Turn struct {
	gate     *gate
	set      *Settings
	events   Events
	ctx      context.Context // of the wait, for a bid that is made on behalf of this turn
	patience Patience
	joined   time.Time
	order    uint32 // of the calls that joined the gate; 0: of a group
	spot
	tried

	grant            *grant
	number           int             // of the turn within the grant, from 1
	firstTry, ending timelimit.Limit // memory for the limits of the first try and of the release

	occupant Occupant  // is told when the grant is lost; guarded by grant.mu
	began    time.Time // when the occupant came, or a member's turn began; guarded by grant.mu
}

// tried is the result of the tries of a turn.
type tried struct {
	attempts int           // tries sent
	waits    bool          // it has paused while it contends: one of the engine's waits
	blocker  locker.Holder // the last holder seen
	fault    error         // the most telling of the tries without an answer
	silent   bool          // the wait ended because the store gave no answer
	probe    *silence      // set while the try of the turn is the probe in this silence
}

// Take waits for a turn on key, and begins it. It ends by max(p.Until, try
// limit) plus 50 ms, or when ctx does, but does not interrupt a try in flight.
// It is for one use of t. s must not change while the turn lasts.
//
// The Refusal comes with ErrHeld and ErrFull. Other errors are ErrEnded and the
// errors of the locker.
func (t *Turn) Take(ctx context.Context, e *Engine, key string, s *Settings, ev Events, p Patience) (Refusal, error) {
	if !e.Enter() {
		return Refusal{}, locker.ErrClosed
	}
	*t = Turn{gate: e.gates.enter(key), set: s, events: ev, ctx: ctx, patience: p, joined: time.Now()}
	return t.take(ctx, false)
}

// Tried tells how the wait of t went. It returns the number of tries, whether
// another turn handed its grant to t, and the last holder in the way. For a
// call that never came to try, that is the holder that this process knows of.
//
// silent reports that t ended without a turn because the store gave no answer.
// It is not true of a refusal, of a key that is held, or of a call that was
// turned away.
func (t *Turn) Tried() (attempts int, handoff bool, blocker locker.Holder, silent bool) {
	blocker = t.blocker
	if t.attempts == 0 && t.gate != nil {
		known, _ := t.gate.known(time.Now())
		blocker = known.Holder
	}
	return t.attempts, t.number > 1, blocker, t.silent
}

// Attach makes o the occupant, whose turn began at the given time. It returns
// why the grant has been lost already, or nil.
func (t *Turn) Attach(o Occupant, began time.Time) error { return t.grant.attach(t, o, began) }

// Err returns why the turn cannot be trusted, or nil. It looks at the clocks.
func (t *Turn) Err() error { return t.grant.err(t) }

// Deadline returns until when the turn may be trusted unless the lease is
// renewed.
func (t *Turn) Deadline() time.Time { return t.grant.deadline() }

// EndedBy returns when a turn that is found lost now ended at the latest.
func (t *Turn) EndedBy(now time.Time) time.Time { return t.grant.endedBy(now) }

// Held returns the turn's holder in the store, and how long it holds.
func (t *Turn) Held() (locker.Holder, time.Duration) { return t.grant.heldBy(time.Now()) }

// Hold returns the claim by which the turn's grant owns the key.
func (t *Turn) Hold() locker.Hold {
	c := &t.grant.bid.claim
	return locker.Hold{Key: c.Key, Owner: c.Owner, Limit: c.Limit}
}

// Token returns the fencing token of the turn. It may make a request. It then
// blocks until that is answered or ctx ends. It returns why the turn cannot be
// trusted, ErrUnavailable of package locker, or ctx's error.
func (t *Turn) Token(ctx context.Context) (uint64, error) { return t.grant.token(ctx, t) }

// Outlived ends the grant, unless it was lost already, because a lease inside
// the turn was not released before it.
func (t *Turn) Outlived() { t.grant.lose(errOutlived) }

// End ends a turn without any I/O. The grant passes to the next in line. If
// there is none, back reports that the caller must release the key, unless its
// cooldown begins. cool says whether that may be. cause is why the grant was
// lost, if it was.
//
// alone says that nothing runs on inside the turn. What is left of a lost key is
// then removed in the background, because the function has returned.
func (t *Turn) End(alone, cool bool) (back bool, cause error) {
	if t.grant.members != nil {
		return t.endShared(alone)
	}
	cools, cause := t.grant.endTurn(t, cool)
	if cause != nil {
		t.gate.turnReturned(t)
	}
	switch {
	case cools: // cooledDown ends it later
	case cause == nil:
		back = !t.passesOn() || !t.gate.handOff(t, time.Now())
	case leftToTTL(alone, cause):
	default:
		t.grant.discard()
	}
	return back, cause
}

// Drop ends a turn that was never used, without any I/O.
func (t *Turn) Drop() {
	defer t.Leave()
	if back, _ := t.End(true, false); back {
		t.Discard()
	}
}

// Discard leaves the release of the key to the locker, after an End that asked
// for it.
func (t *Turn) Discard() {
	t.grant.discard()
	t.passFloor()
}

// passFloor gives the floor to the next in line. A bid that nobody is left to
// go on with is abandoned.
func (t *Turn) passFloor() { t.abandonBid(t.gate.passFloor(t)) }

// abandonBid asks the locker to remove what b has left. b may be nil.
func (t *Turn) abandonBid(b *bid) { b.abandon(t.gate.engine.locker) }

// Leave ends the use of the gate and the engine. It is the last call. It comes
// after an End that asked for no release, or after the release. Drop calls it
// itself.
func (t *Turn) Leave() {
	e := t.gate.engine
	e.gates.leave(t.gate)
	e.Leave()
}
