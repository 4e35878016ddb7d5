package turns

import (
	"cmp"
	"context"
	"errors"
	"time"

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
// afterwards. occupant is nil until Attach. attempts, blocker and fault do not
// change after Take.
type Turn struct {
	gate     *gate
	set      *Settings
	events   Events
	ctx      context.Context // of the wait, for a bid that is made on behalf of this turn
	patience Patience
	joined   time.Time
	spot
	tried

	grant    *grant
	number   int       // of the turn within the grant, from 1
	occupant Occupant  // is told when the grant is lost; guarded by grant.mu
	began    time.Time // when the occupant came; guarded by grant.mu
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

// take waits for t to begin. If t does not, it quits. joined reports that t has
// the floor or a place in line already.
func (t *Turn) take(ctx context.Context, joined bool) (refusal Refusal, err error) {
	begun := false
	defer func() {
		if !begun { // also after a panic of the locker
			t.quit()
		}
	}()
	if !joined {
		refusal, err = t.join()
	}
	if err == nil {
		refusal, err = t.wait(ctx)
	}
	t.silent = err != nil && t.endedSilent(err)
	begun = err == nil
	if begun {
		t.gate.engine.arrive(t.grant.bid.claim.Holder.Instance)
	}
	return refusal, err
}

// wait stands in line, contends and begins. It starts over if a grant does not
// last until then.
func (t *Turn) wait(ctx context.Context) (_ Refusal, err error) {
	for err == nil {
		gr, has, given := t.gate.stand(t)
		switch {
		case !has:
			err = t.standInLine(ctx, given)
			continue
		case gr == nil:
			gr, err = t.contend(ctx)
		default:
			err = t.stopped(ctx)
		}
		if err == nil && gr.begin(t) {
			t.gate.began(t, time.Now())
			return Refusal{}, nil
		}
		if err == nil { // it aged or was lost on its way here: again, first in line
			if t.gate.rejoin(t, gr) {
				gr.discard()
			}
		}
	}
	if errors.Is(err, errNoWait) {
		return t.refusal(time.Now())
	}
	return Refusal{}, err
}

// refusal describes why t goes without the key, now that it does not wait any
// longer. The next call will hardly have a shorter wait than t had in vain.
func (t *Turn) refusal(now time.Time) (Refusal, error) {
	r, fault := t.gate.known(now)
	if fault != nil {
		return Refusal{}, cmp.Or(t.fault, fault)
	}
	r.Expected = max(r.Expected, now.Sub(t.joined))
	r.Here = !t.patience.Once && t.gate.heldHere(t.joined)
	r.Kept = t.kept(r.Holder, now)
	if r.Kept > 0 && !t.gate.othersWait(t) {
		r.Expected = 0 // the end of MinHold is known
	}
	return r, ErrHeld
}

// join enters the gate, or says why waiting there would not help.
func (t *Turn) join() (Refusal, error) {
	if err := t.hopeless(); err != nil {
		return Refusal{}, err
	}
	now := time.Now()
	joined, ahead, expected := t.gate.join(t, now)
	switch {
	case joined:
		return Refusal{}, nil
	case t.patience.Once:
		return t.refusal(now)
	}
	holder, _ := t.gate.known(now)
	r := Refusal{Expected: max(expected, t.kept(holder.Holder, now))}
	if t.full(ahead) {
		r.Ahead = ahead
	}
	return r, ErrFull
}

// hopeless returns the error of a call that would stand in line behind one that
// cannot even try, because of an outage that has lasted too long.
func (t *Turn) hopeless() error {
	if err := t.gate.engine.outages.refuses(t.gate.name, t.longest()); err != nil && t.gate.contends() {
		return err
	}
	return nil
}

// mayWait decides whether t may stand in line. The first in line always may, so
// that there are turns to learn from.
func (t *Turn) mayWait(ahead int, expected time.Duration, now time.Time) bool {
	tooLong := ahead > 0 && expected > 0 && expected >= t.patience.Until.Sub(now)
	return !t.patience.Once && !t.full(ahead) && !tooLong
}

// full reports whether ahead is all that may stand in line.
func (t *Turn) full(ahead int) bool { return t.set.MaxWaiters > 0 && ahead >= t.set.MaxWaiters }

// lastMoment is when the last try must have ended. A short wait may take the
// full limit of one try.
func (t *Turn) lastMoment() time.Time {
	if first := t.patience.Start.Add(TryLimit(t.set.TTL)); first.After(t.patience.Until) {
		return first
	}
	return t.patience.Until
}

// standInLine waits until t is given the floor.
func (t *Turn) standInLine(ctx context.Context, given <-chan struct{}) error {
	timer := time.NewTimer(time.Until(t.patience.Until))
	defer timer.Stop()
	select {
	case <-given:
		return nil
	case <-timer.C:
		return errNoWait
	case <-ctx.Done():
		return ErrEnded
	case <-t.gate.engine.closing:
		return locker.ErrClosed
	}
}

// contend tries for the key, or takes it when it is handed over. It ends with a
// grant, or with the end of the wait. t has the floor.
func (t *Turn) contend(ctx context.Context) (gr *grant, err error) {
	defer t.noteWaits(false)
	defer t.unprobe(false) // after a panic of the locker
	_, other := t.gate.bidFor(t.set.terms())
	t.abandonBid(other) // before it is granted
	for gr == nil && err == nil {
		if err = t.awaitAlarm(ctx); err != nil {
			break
		}
		if b, o, since, ok := t.gate.takeOffer(); ok {
			gr = t.accept(b, o, since)
			continue
		}
		var may bool
		if may, err = t.admitted(ctx); !may {
			continue
		}
		gr, err = t.try(ctx)
		if gr == nil && err == nil && t.patience.Once {
			err = errNoWait
		}
	}
	if err == nil {
		err = t.stopped(ctx) // as the grant came: it goes to the next in line (law 10)
	}
	return gr, err
}

// awaitAlarm waits until the contender must act, or returns why the wait is
// over.
func (t *Turn) awaitAlarm(ctx context.Context) error {
	for {
		if err := t.stopped(ctx); err != nil {
			return err
		}
		now := time.Now()
		d, offered, poke := t.gate.untilDue(now)
		left := t.patience.Until.Sub(now)
		switch {
		case offered:
			return nil
		case !now.Before(t.lastMoment()):
			return errNoWait
		case t.patience.Once:
			return nil
		case left <= 0 && (t.attempts > 0 || t.floor != nil):
			return errNoWait // the floor came too late for a first try, or there has been one
		case d <= 0:
			return nil
		}
		t.noteWaits(true)
		t.sleep(ctx, min(d, left), poke)
	}
}

// noteWaits counts t among the waits of the engine, or takes it out.
func (t *Turn) noteWaits(waits bool) {
	switch {
	case t.waits == waits:
	case waits:
		t.gate.engine.waits.Add(1)
	default:
		t.gate.engine.waits.Add(-1)
	}
	t.waits = waits
}

func (t *Turn) sleep(ctx context.Context, d time.Duration, poke <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-poke:
	case <-ctx.Done():
	case <-t.gate.engine.closing:
	}
}

// stopped returns why the wait ends at once, or nil.
func (t *Turn) stopped(ctx context.Context) error {
	select {
	case <-t.gate.engine.closing:
		return locker.ErrClosed
	case <-ctx.Done():
		return ErrEnded
	default:
		return nil
	}
}

// quit gives up a turn that has not begun, wherever it is. It also gives up
// what the turn was handed on its way.
func (t *Turn) quit() {
	gr, b := t.gate.quit(t)
	if gr != nil {
		gr.discard()
	}
	t.abandonBid(b)
	t.Leave()
}

// Tried tells how the wait of t went. It returns the number of tries, whether
// another turn handed its grant to t, and the last holder in the way. For a
// call that never came to try, that is the holder that this process knows of.
func (t *Turn) Tried() (attempts int, handoff bool, blocker locker.Holder) {
	blocker = t.blocker
	if t.attempts == 0 && t.gate != nil {
		known, _ := t.gate.known(time.Now())
		blocker = known.Holder
	}
	return t.attempts, t.number > 1, blocker
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
	return locker.Hold{Key: c.Key, Owner: c.Owner}
}

// Token returns the fencing token of the turn. It may make a request. It then
// blocks until that is answered or ctx ends. It returns why the turn cannot be
// trusted, ErrUnavailable of package locker, or ctx's error.
func (t *Turn) Token(ctx context.Context) (uint64, error) { return t.grant.token(ctx, t) }

// Outlived ends the grant, unless it was lost already, because a lease inside
// the turn was not released before it.
func (t *Turn) Outlived() { t.grant.lose(errOutlived) }

// End ends a turn without any I/O. The grant passes to the next in line. If
// there is none, back reports that the caller must release the key, unless
// MinHold keeps it. keep says whether MinHold may keep it. cause is why the
// grant was lost, if it was.
//
// alone says that nothing runs on inside the turn. What is left of a lost key
// is then removed in the background, because the function has returned.
func (t *Turn) End(alone, keep bool) (back bool, cause error) {
	if t.grant.members != nil {
		return t.endShared(alone)
	}
	kept, cause := t.grant.endTurn(t, keep)
	if cause != nil {
		t.gate.turnReturned(t)
	}
	switch {
	case kept: // endKept ends it later
	case cause == nil:
		back = !t.gate.handOff(t, time.Now())
	case leftToTTL(alone, cause):
	default:
		t.grant.discard()
	}
	return back, cause
}

// leftToTTL reports whether a key that was lost for the given cause is left to
// its TTL when the function returns.
func leftToTTL(alone bool, cause error) bool {
	return !alone || errors.Is(cause, locker.ErrClosed) || errors.Is(cause, errOutlived)
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
