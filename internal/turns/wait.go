package turns

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// This file is how a turn comes to its begin: it joins the gate, stands in line
// and contends.

// errNoWait ends a wait without the key. It becomes a Refusal.
var errNoWait = errors.New("guard: would have to wait")

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
		case t.gate.found(t):
			err = ErrRecorded
			continue
		case !has:
			err = t.standInLine(ctx, given)
			continue
		case gr == nil:
			gr, err = t.contend(ctx)
		default:
			err = t.stopped(ctx)
		}
		if err == nil && t.begin(gr) {
			return Refusal{}, nil
		}
		if err == nil { // it aged or was lost on its way here: again, first in line
			if t.gate.rejoin(t, gr) {
				gr.discard()
			}
		}
	}
	switch {
	case t.gate.found(t): // whatever else ended the wait
		return Refusal{}, ErrRecorded
	case errors.Is(err, errNoWait):
		return t.refusal(time.Now())
	}
	return Refusal{}, err
}

// begin starts t's turn on gr. It returns false if too little of gr is left.
func (t *Turn) begin(gr *grant) bool {
	now := time.Now()
	if !gr.begin(t, now) {
		return false
	}
	t.gate.began(t, now)
	return true
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
	r.Cooldown = t.cooldown(r.Holder, now)
	if r.Cooldown > 0 && !t.gate.othersWait(t) {
		r.Expected = 0 // the end of MinHold is known
	}
	return r, ErrHeld
}

// join enters the gate, or says why waiting there would not help.
func (t *Turn) join() (Refusal, error) {
	if err := t.hopeless(); err != nil {
		return Refusal{}, err
	}
	now := t.joined
	joined, ahead, expected := t.gate.join(t, now)
	switch {
	case joined:
		return Refusal{}, nil
	case t.patience.Once:
		return t.refusal(now)
	}
	holder, _ := t.gate.known(now)
	r := Refusal{Expected: max(expected, t.cooldown(holder.Holder, now))}
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
	tooLong := ahead > 0 && expected > 0 && expected >= t.patience.Until.Sub(now) &&
		!t.recalls() // one turn may answer them all
	return !t.patience.Once && !t.full(ahead) && !tooLong
}

// full reports whether ahead is all that may stand in line.
func (t *Turn) full(ahead int) bool { return t.set.MaxWaiters > 0 && ahead >= t.set.MaxWaiters }

// lastMoment is when the last try must have ended. A short wait may take the
// full limit of one try.
func (t *Turn) lastMoment() time.Time {
	if first := t.patience.Start.Add(limits.Try(t.set.TTL)); first.After(t.patience.Until) {
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
	case <-t.gate.engine.calls.closing:
		return locker.ErrClosed
	}
}

// contend tries for the key, or takes it when it is handed over. It ends with a
// grant, or with the end of the wait. t has the floor.
func (t *Turn) contend(ctx context.Context) (gr *grant, err error) {
	defer t.noteWaits(false)
	defer t.unprobe(false) // after a panic of the locker
	_, other := t.gate.bidFor(t.terms())
	t.abandonBid(other) // before it is granted
	for gr == nil && err == nil {
		if err = t.awaitAlarm(ctx); err != nil {
			break
		}
		if t.gate.found(t) {
			err = ErrRecorded
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
		case left <= 0 && (t.attempts > 0 || t.given != nil):
			return errNoWait // the floor came too late for a first try, or there has been one
		case d <= 0 && !t.tooLate(left):
			return nil
		case d <= 0:
			d = left // a message may still come
		}
		t.noteWaits(true)
		t.sleep(ctx, min(d, left), poke)
	}
}

// tooLate reports whether a look would be cut short by the end of the wait, in
// left. It would tell nothing, and cost the store a connection. A first try may
// take its full limit.
func (t *Turn) tooLate(left time.Duration) bool {
	return (t.attempts > 0 || t.given != nil) && !t.gate.looksInTime(left+limits.TryGrace)
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
	case <-t.gate.engine.calls.closing:
	}
}

// stopped returns why the wait ends at once, or nil.
func (t *Turn) stopped(ctx context.Context) error {
	select {
	case <-t.gate.engine.calls.closing:
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
