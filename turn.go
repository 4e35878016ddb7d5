package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/ran"
)

// A turn is one caller's time on a key: first its place at the gate, then its number on a grant. The lease that the caller
// gets and those that run inside it share one.
type turn struct {
	guard *Guard // resolved
	gate  *gate
	ctx   context.Context // of the wait, for whoever makes a bid on behalf of this turn
	patience
	terms  terms
	joined time.Time
	floor  chan struct{} // tells that it was given the floor, once each time it stands in line; buffered; guarded by gate.mu

	prev, next *turn // in line; guarded by gate.mu, like inLine
	inLine     bool
	unused     bool // nobody ran under it, so its key is not kept for WithMinHold

	attempts int    // tries sent
	waits    bool   // it has paused while it contends: one of its family's waits
	blocker  Holder // the last holder seen
	fault    error  // the most telling of its tries that got no answer

	grant  *grant // set when the turn begins, like number
	number int    // of the turn within the grant, from 1
	lease  *Lease // whose context ends with the grant; guarded by grant.mu
}

// patience is how long a verb waits for one key.
type patience struct {
	start, until time.Time
	once         bool // one attempt, no wait
}

func (c *config) patience() patience {
	now := time.Now()
	return patience{start: now, until: now.Add(c.maxWait), once: c.maxWait == 0}
}

// lastMoment is when the last try must have ended: a short wait may take the full limit of one.
func (t *turn) lastMoment() time.Time {
	if first := t.start.Add(tryLimit(t.guard.ttl)); first.After(t.until) {
		return first
	}
	return t.until
}

// errNoWait ends a wait that may not go on; the caller gets a HeldError, or the ErrUnavailable of the last try.
var errNoWait = errors.New("guard: would have to wait")

// take waits for a turn on key, and begins it. It ends by max(until, try limit) plus 50 ms, or when ctx does, but does not
// interrupt a try in flight.
func (t *turn) take(ctx context.Context, g *Guard, key string, p patience) error {
	if !g.family.enter() {
		return ErrClosed
	}
	*t = turn{
		guard: g, gate: g.family.gates.enter(key), ctx: ctx, patience: p, terms: g.terms(), joined: time.Now(),
	}
	begun := false
	defer func() {
		if !begun { // also after a panic of the locker
			t.quit()
		}
	}()
	err := t.wait(ctx)
	begun = err == nil
	return err
}

// wait stands in line, contends and begins, and starts over if a grant does not last until then.
func (t *turn) wait(ctx context.Context) error {
	err := t.join()
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
			return nil
		}
		if err == nil { // it aged or was lost on its way here: again, first in line
			gr.discard()
			t.gate.rejoin(t)
		}
	}
	if errors.Is(err, errNoWait) {
		err = t.refusal(time.Now())
	}
	return err
}

// refusal describes why t goes without the key, now that it does not wait any longer. Whoever comes next will hardly wait
// less than t has in vain.
func (t *turn) refusal(now time.Time) error {
	err := t.gate.refusal(now)
	if held := new(HeldError); errors.As(err, &held) {
		held.expected = max(held.expected, now.Sub(t.joined))
		held.here = !t.once && t.gate.heldHere(t.joined)
		held.Kept = t.kept(now)
		if held.Kept > 0 && !t.gate.othersWait(t) {
			held.expected = 0 // the end of MinHold is known
		}
		return err
	}
	return cmp.Or(t.fault, err)
}

// join enters the gate, or says why waiting there would not help.
func (t *turn) join() error {
	now := time.Now()
	joined, ahead, expected := t.gate.join(t, now)
	switch {
	case joined:
		return nil
	case t.once:
		return errNoWait
	case t.full(ahead):
		return &refusedError{reason: fmt.Sprintf("%d calls wait for this key", ahead), expected: max(expected, t.kept(now))}
	}
	return &refusedError{reason: "the expected wait is longer than MaxWait", expected: max(expected, t.kept(now))}
}

// mayWait decides whether t may stand in line. The first in line always may, so that there are turns to learn from.
func (t *turn) mayWait(ahead int, expected time.Duration, now time.Time) bool {
	tooLong := ahead > 0 && expected > 0 && expected >= t.until.Sub(now)
	return !t.once && !t.full(ahead) && !tooLong
}

func (t *turn) full(ahead int) bool {
	most := t.guard.maxWaiters
	return most > 0 && ahead >= most
}

// standInLine waits until t is given the floor.
func (t *turn) standInLine(ctx context.Context, given <-chan struct{}) error {
	timer := time.NewTimer(time.Until(t.until))
	defer timer.Stop()
	select {
	case <-given:
		return nil
	case <-timer.C:
		return errNoWait
	case <-ctx.Done():
		return waitEnded(ctx)
	case <-t.guard.family.closing:
		return ErrClosed
	}
}

// contend tries for the key, or takes it when it is handed over, until there is a grant or the wait is over. t has the
// floor.
func (t *turn) contend(ctx context.Context) (gr *grant, err error) {
	defer t.noteWaits(false)
	for gr == nil && err == nil {
		if err = t.pause(ctx); err != nil {
			break
		}
		if b, o, since, ok := t.gate.take(); ok {
			gr = t.accept(b, o, since)
			continue
		}
		gr, err = t.try(ctx)
		if gr == nil && err == nil && t.once {
			err = errNoWait
		}
	}
	if err == nil {
		err = t.stopped(ctx) // as the grant came: it goes to the next in line (law 10)
	}
	return gr, err
}

// pause waits until the contender must act, or returns why it does not any more.
func (t *turn) pause(ctx context.Context) error {
	for {
		if err := t.stopped(ctx); err != nil {
			return err
		}
		now := time.Now()
		d, offered, poke := t.gate.pause(now)
		left := t.until.Sub(now)
		switch {
		case offered:
			return nil
		case !now.Before(t.lastMoment()):
			return errNoWait
		case t.once:
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

// noteWaits counts t among the waits of its family, or does not any more.
func (t *turn) noteWaits(waits bool) {
	switch {
	case t.waits == waits:
	case waits:
		t.guard.family.waits.Add(1)
	default:
		t.guard.family.waits.Add(-1)
	}
	t.waits = waits
}

func (t *turn) sleep(ctx context.Context, d time.Duration, poke <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-poke:
	case <-ctx.Done():
	case <-t.guard.family.closing:
	}
}

// stopped returns why the wait ends at once, or nil.
func (t *turn) stopped(ctx context.Context) error {
	select {
	case <-t.guard.family.closing:
		return ErrClosed
	case <-ctx.Done():
		return waitEnded(ctx)
	default:
		return nil
	}
}

// waitEnded is the error of a wait that ended with its ctx: ErrNotAcquired, ctx.Err() and its cause. The cause may be
// the error of a function that ran, as under an errgroup.
func waitEnded(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return ran.Refuse(fmt.Errorf("%w: %w", ErrNotAcquired, cause))
	}
	return ran.Refuse(fmt.Errorf("%w: %w: %w", ErrNotAcquired, err, cause))
}

// quit gives up a turn that has not begun, wherever it is, and what it was handed on its way.
func (t *turn) quit() {
	l := t.guard.family.locker
	gr, b := t.gate.quit(t)
	if gr != nil {
		gr.discard()
	}
	b.abandon(l)
	t.leave()
}

// end ends a turn without any I/O: the next in line goes on with the grant, or the caller must give it back, if the key is
// not kept for a while. cause is why the grant was lost, if it was: then what is left of the key goes in the background, now
// that the function has returned, if it was alone.
func (t *turn) end(alone bool) (back bool, cause error) {
	gr := t.grant
	kept, cause := gr.endTurn(t)
	if cause != nil {
		t.gate.returned(t)
	}
	switch {
	case kept: // and then endKept does what follows here
	case cause == nil:
		back = !t.gate.handOff(t, gr, time.Now())
	case !alone, errors.Is(cause, ErrClosed), errors.Is(cause, errOutlived): // the key is left to its TTL
	default:
		gr.discard()
	}
	return back, cause
}

// drop gives up a turn that has begun and that nobody has used, without any I/O.
func (t *turn) drop() {
	defer t.leave()
	t.unused = true
	if back, _ := t.end(true); back {
		t.grant.discard()
		t.pass()
	}
}

// pass gives the floor to the next in line; a bid that nobody is left to go on with is given up.
func (t *turn) pass() { t.gate.pass(t).abandon(t.guard.family.locker) }

// leave ends the use of gate and family.
func (t *turn) leave() {
	t.guard.family.gates.leave(t.gate)
	t.guard.family.leave()
}
