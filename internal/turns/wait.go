package turns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/timelimit"
	"github.com/go-lockguard/guard/locker"
)

// A waiter brings a turn to its begin: it joins the gate, stands in line,
// contends and tries. It lasts from the begin of [Turn.Take] to its end, in the
// goroutine of the caller.
type waiter struct {
	*Turn
	counted bool      // it has paused while it contends, and the engine counts it
	asks    bool      // it has one attempt, and waits for a key that may be idle elsewhere
	asked   bool      // it has looked for such a key at the end of that wait
	early   time.Time // when its one attempt began, if that is made again; else zero
	fault   error     // the most telling of the tries without an answer
	probe   *silence  // set while the try of the turn is the probe in this silence
}

// These end a wait right behind an idle releaser, or for the answer to another
// call.
var (
	errIdleReleaseHangs = fmt.Errorf("%w: %w to the release of the key, which was idle",
		locker.ErrUnavailable, locker.ErrSilent)
	errIdleReleaseWaits = fmt.Errorf("%w: the key was idle, and its release has yet to be answered",
		locker.ErrUnavailable)
	errAnswerWaits = fmt.Errorf("%w: another call here asks for the key, and has yet to be answered",
		locker.ErrUnavailable)
)

// take waits for w to begin: it stands in line, contends and begins. If a grant
// does not last until then, w starts over. If w does not begin, it quits.
// joined reports that w has the floor or a place in line already.
func (w *waiter) take(ctx context.Context, joined bool) (refusal Refusal, err error) {
	begun := false
	defer func() {
		if !begun { // also after a panic of the locker
			w.quit()
		}
	}()
	if !joined {
		refusal, err = w.join()
	}
	stands := err == nil
	for err == nil {
		gr, has, given, recorded := w.gate.stand(w.Turn)
		switch {
		case recorded:
			return Refusal{}, ErrRecorded
		case !has:
			err = w.standInLine(ctx, given)
			continue
		case gr == nil:
			gr, err = w.contend(ctx)
		default:
			err = w.stopped(ctx)
		}
		if err != nil {
			break
		}
		if begun = w.begin(gr); begun {
			return Refusal{}, nil
		}
		if w.gate.rejoin(w.Turn, gr) { // it aged or was lost on its way here: again, first in line
			gr.discard()
		}
	}
	if stands {
		refusal, err = w.unserved(err)
	}
	return refusal, err
}

// quit gives up a turn that has not begun, wherever it is. quit also gives up
// what the turn was handed on its way.
func (w *waiter) quit() {
	gr, b := w.gate.quit(w.Turn)
	if gr != nil {
		gr.discard()
	}
	w.giveUp(b)
	w.Leave()
}

// join enters the gate, or says why waiting there would not help.
func (w *waiter) join() (Refusal, error) {
	// It would stand in line behind one that cannot even try.
	if err := w.outages.refuses(w.gate.name, w.longest()); err != nil && w.gate.contends() {
		return Refusal{}, err
	}
	now := w.joined
	joined, ahead, expected := w.gate.join(w.Turn, now)
	switch {
	case joined:
		return Refusal{}, nil
	case w.patience.Once:
		return w.refusal(now)
	}
	known, _ := w.gate.refusal(w.Turn, now)
	r := Refusal{Expected: max(expected, known.Cooldown)}
	if w.full(ahead) {
		r.Ahead = ahead
	}
	return r, ErrFull
}

// unserved returns how w, whose wait err has ended, goes without a turn.
func (w *waiter) unserved(err error) (Refusal, error) {
	if w.recalls() {
		if _, _, _, recorded := w.gate.stand(w.Turn); recorded { // whatever else ended the wait
			return Refusal{}, ErrRecorded
		}
	}
	if errors.Is(err, errNoWait) {
		return w.refusal(time.Now())
	}
	return Refusal{}, err
}

// standInLine waits until w is given the floor.
func (w *waiter) standInLine(ctx context.Context, given <-chan struct{}) error {
	until := w.patience.Until
	if w.second || w.asksBeside() { // these wait for an answer
		until = w.lastMoment()
	}
	if w.sleep(ctx, time.Until(until), given, nil) {
		return w.verdict
	}
	switch err := w.stopped(ctx); {
	case err != nil:
		return err
	case w.second: // nobody has the key
		return w.idleReleaseHangs(ctx)
	case w.asksBeside() && w.gate.unheard():
		return errAnswerWaits
	}
	return errNoWait
}

// idleReleaseHangs returns why w has waited for an idle releaser in vain. If
// the release was under way as long as w waited, that is silence, as that of a
// try.
func (w *waiter) idleReleaseHangs(ctx context.Context) error {
	now, limit := time.Now(), limits.Try(w.set.TTL)
	if !w.gate.hangs(now, limit-timelimit.Short) {
		return errIdleReleaseWaits
	}
	w.noteTry(ctx, heardByTry(errIdleReleaseHangs, now.Sub(w.joined), limit, true), errIdleReleaseHangs)
	return errIdleReleaseHangs
}

// begin starts w's turn on gr. begin returns false if too little of gr is left.
func (w *waiter) begin(gr *grant) bool {
	now := time.Now()
	if !gr.begin(w.Turn, now) {
		return false
	}
	w.gate.began(w.Turn, now)
	w.arrive(gr.bid.claim.Holder.Instance)
	return true
}

// stopped returns why the wait ends at once, or nil.
func (w *waiter) stopped(ctx context.Context) error {
	select {
	case <-w.calls.closing:
		return locker.ErrClosed
	case <-ctx.Done():
		return ErrEnded
	default:
		return nil
	}
}

// lastMoment is when the last try must have ended. A short wait may take the
// full limit of one try.
func (w *waiter) lastMoment() time.Time {
	if first := w.patience.Start.Add(limits.Try(w.set.TTL)); first.After(w.patience.Until) {
		return first
	}
	return w.patience.Until
}

// late reports whether w has waited, so that no try of it begins after its wait.
func (w *waiter) late() bool { return !w.patience.Once && (w.attempts > 0 || w.stood()) }

// refusal describes why w goes without the key, now that it does not wait any
// longer.
func (w *waiter) refusal(now time.Time) (Refusal, error) {
	r, fault := w.gate.refusal(w.Turn, now)
	if fault != nil {
		return Refusal{}, cmp.Or(w.fault, fault)
	}
	r.Here = r.Here && !w.patience.Once && !w.asks
	return r, ErrHeld
}

// contend does what the contender of the gate needs, until w has a grant or its
// wait ends. w has the floor.
func (w *waiter) contend(ctx context.Context) (gr *grant, err error) {
	defer w.notePause(false)
	defer w.unprobe(false) // after a panic of the locker
	for gr == nil && err == nil {
		var a action
		if a, err = w.nextAction(ctx); err != nil {
			break
		}
		switch a.do {
		case toTake:
			if gr = grantOffered(w.Turn, a); gr != nil { // otherwise the next try comes under the same owner id (law 1)
				w.gate.tryWon(gr)
			}
		case toTry:
			gr, err = w.try(ctx, a)
		default:
			w.notePause(true)
			w.sleep(ctx, a.left, nil, a.poke)
		}
	}
	if err == nil {
		err = w.stopped(ctx) // as the grant came: it goes to the next in line (law 3)
	}
	return gr, err
}

// nextAction returns what the contender needs next, as far as the patience of w
// allows. The error says why the wait is over.
func (w *waiter) nextAction(ctx context.Context) (action, error) {
	if err := w.stopped(ctx); err != nil {
		return action{}, err
	}
	now := time.Now()
	a, err := w.gate.next(w.Turn, now)
	w.giveUp(a.over) // before it is granted
	left := w.patience.Until.Sub(now)
	switch {
	case err != nil, a.do == toTake:
	case left <= 0 && w.asksAgain(now):
		a.do = toTry
	case !now.Before(w.lastMoment()), left <= 0 && w.late():
		err = errNoWait
	case w.patience.Once:
		a.do = toTry
	case a.do == toTry && w.late() && a.looks > left+limits.TryGrace:
		// The end of the wait would cut the look short. Such a look would tell
		// nothing, and cost the store a connection. A message may still come.
		a.do, a.left = toPause, left
	default:
		a.left = min(a.left, left)
	}
	return a, err
}

// notePause counts w among the waiters of the engine that have paused, or takes
// it out.
func (w *waiter) notePause(pauses bool) {
	switch {
	case w.counted == pauses:
	case pauses:
		w.paused.Add(1)
	default:
		w.paused.Add(-1)
	}
	w.counted = pauses
}

// sleep waits for a signal of comes, and reports whether that came. Otherwise
// sleep ends after d, by a poke, or when the wait is over.
func (w *waiter) sleep(ctx context.Context, d time.Duration, comes, poke <-chan struct{}) (came bool) {
	timer := time.NewTimer(limits.Apart(d))
	defer timer.Stop()
	select {
	case <-comes:
		return true
	case <-timer.C:
	case <-poke:
	case <-ctx.Done():
	case <-w.calls.closing:
	}
	return false
}

// try sends the try that a asks for, if the store is not known to be silent.
// try returns a grant, or the error that ends the wait. If it returns neither,
// the caller looks again what is next.
func (w *waiter) try(ctx context.Context, a action) (*grant, error) {
	if may, err := w.admitted(ctx, a.poke); !may {
		return nil, err
	}
	sent, b := time.Now(), a.bid
	if b == nil {
		b = w.newBid(sent)
		b.claim.Lingers = w.lingers(sent)
	}
	limit := w.tryLimit(sent)
	cut := limit < limits.Try(w.set.TTL)
	how, joins := w.gate.beginTry(b, !w.patience.Once, sent)
	how.Rest = restFor(w.paused.Load())
	if b.claim.Lingers && !w.store.Listens() {
		w.gate.missed() // that may have been called before the gate had the bid
	}
	answer, err := w.store.Acquire(w.limited(ctx, sent, limit), &b.claim, how)
	again := w.again(err, sent, limit)
	h, err := w.heard(ctx, err, sent, limit, again)
	refused, err := usable(err)  // if refused, trying again cannot help
	defer w.noteTry(ctx, h, err) // last, because a logger may panic
	switch {
	case err == nil && answer.Record != "":
		w.giveUp(w.gate.foundRecord(w.Turn, answer.Record, joins))
		return nil, ErrRecorded
	case err == nil && answer.Acquired:
		if gr := w.won(b, sent, answer.Token); gr != nil {
			return gr, nil
		}
	case err == nil:
		w.blocker = answer.Holder
		w.lingerStats.busy(w.gate.name)
		if w.ask(answer, sent) {
			return nil, nil
		}
		w.giveUp(w.gate.tryHeld(w.Turn, answer, sent, joins))
	case errors.Is(err, locker.ErrClosed):
		return nil, err
	default:
		w.fault = moreTelling(w.fault, err)
		if errors.Is(err, locker.ErrUnsent) {
			w.unsent(cut, err)
		} else {
			w.unanswered(answer.Queued, cut, err)
		}
		if refused || !cut && !again {
			w.gate.tryFailed(w.Turn, err, joins, refused)
		}
		if refused {
			return nil, err
		}
	}
	if w.patience.Once && !again {
		return nil, errNoWait
	}
	return nil, nil
}

// again reports whether w, which has one attempt, tries once more. The store
// has given up the first try before its limit, because it had a connection that
// may have been forgotten on its way. Both tries together have the limit of
// one.
func (w *waiter) again(err error, sent time.Time, limit time.Duration) bool {
	early := time.Since(sent) < limit-timelimit.Short
	return err != nil && w.patience.Once && w.attempts == 1 && lockerkit.TimedOut(err) && early
}

// heard returns what a try of w has told of the store, and its error. A try
// that is made again tells nothing. The two count as one, whose error is that
// of the first if the second was not sent.
func (w *waiter) heard(ctx context.Context, err error, sent time.Time, limit time.Duration, again bool) (hearing,
	error,
) {
	full := limits.Try(w.set.TTL)
	switch {
	case again:
		w.early = sent
		return nothing, err
	case !w.early.IsZero():
		sent, limit = w.early, full
		if errors.Is(err, locker.ErrUnsent) {
			err = w.fault
		}
	}
	return heardByTry(err, time.Since(sent), limit, ctx.Err() == nil && limit >= full), err
}

// ask lets w, which has one attempt, wait a moment for a key that may be idle
// in another process. Otherwise nobody would have it, and w would be refused.
// ask reports whether w waits.
func (w *waiter) ask(a locker.Answer, sent time.Time) bool {
	if !w.patience.Once || !a.Lingers {
		return false
	}
	now := time.Now()
	w.asks, w.patience.Once = true, false
	w.patience.Until = earlier(w.lastMoment(), now.Add(max(limits.Ask, 3*now.Sub(sent))))
	w.heldAhead(a)
	return true
}

// asksAgain reports whether w, whose wait for an idle key is over, looks once
// more. The key may be its own, and the message late or lost.
func (w *waiter) asksAgain(now time.Time) bool {
	if !w.asks || w.asked || !now.Before(w.lastMoment()) {
		return false
	}
	w.asked = true
	return true
}

// unsent records that a try was not sent, because of err.
func (w *waiter) unsent(cut bool, err error) {
	spread := min(wakeSpread(w.paused.Load()), locker.QueueLife/2)
	w.update(func(c *contender, now time.Time) *bid {
		c.tryUnsent(cut, err, now, w.set.Backoff, spread)
		return nil
	})
}

// unanswered records that a try ended with err, without an answer. queued says
// that the bid may be in the queue, and cut that the try had less than its full
// limit.
func (w *waiter) unanswered(queued, cut bool, err error) {
	w.update(func(c *contender, now time.Time) *bid {
		return c.tryUnanswered(queued, cut, err, now, w.set.Backoff)
	})
}

// lingers reports whether the claim of a new try of w lingers.
func (w *waiter) lingers(now time.Time) bool {
	return w.set.Linger > 0 && !w.recalls() && w.lingerStats.may(w.gate.name, now) && w.store.Listens()
}

// tryLimit bounds the next try, so that the wait ends in time.
func (w *waiter) tryLimit(now time.Time) time.Duration {
	limit, left := limits.Try(w.set.TTL), w.lastMoment().Sub(now)
	if left > limit { // the wait may have no end
		return limit
	}
	return min(limit, left+limits.TryGrace)
}

// limited counts a try. limited returns a context for it with this limit.
func (w *waiter) limited(ctx context.Context, sent time.Time, limit time.Duration) context.Context {
	memory := &w.firstTry
	if w.attempts++; w.attempts > 1 {
		memory = new(timelimit.Limit)
	}
	return w.limits.In(ctx, memory, sent, limit)
}

// won makes a grant of a try that succeeded. won returns nil if the answer was
// too slow.
func (w *waiter) won(b *bid, sent time.Time, token uint64) *grant {
	gr := grantWon(w.Turn, b, sent, token)
	if w.set.Linger > 0 && w.attempts == 1 {
		w.lingerStats.took(w.gate.name)
	}
	if gr != nil {
		w.gate.tryWon(gr)
		return gr
	}
	took, length := time.Since(sent), b.claim.First()
	err := fmt.Errorf("%w: the answer took %v of a lease of %v", locker.ErrUnavailable, took, length)
	b.unclear = true
	w.unanswered(true, false, err)
	return nil
}

// beginAhead begins w on the grant that its group has got. beginAhead returns
// false if there is none, or if w must look again why its wait ends.
func (w *waiter) beginAhead(ctx context.Context) bool {
	gr, has, _, _ := w.gate.stand(w.Turn)
	return has && gr != nil && w.stopped(ctx) == nil && w.begin(gr)
}

// heldAhead records that somebody else owns the key. The next try, if there is
// one, comes at once and looks first.
func (w *waiter) heldAhead(a locker.Answer) {
	w.blocker = a.Holder
	w.update(func(c *contender, now time.Time) *bid { c.tryBusy(a, now); return nil })
}

// unansweredAhead records that it is not known whether the bid of w has its
// key, or is queued. One error is for all claims of a request, and a part of
// them may have been sent, so locker.ErrUnsent says nothing of this one.
func (w *waiter) unansweredAhead(queued bool, err error) {
	w.fault = err
	w.unanswered(queued, false, err)
}

// admitted reports whether w may try now. If not, it has waited, and the caller
// looks again whether the wait of w is over. admitted returns the error of a
// turn that is refused. While all is well it costs an atomic load.
func (w *waiter) admitted(ctx context.Context, poke <-chan struct{}) (may bool, err error) {
	os := &w.outages
	if os.on.Load() == 0 {
		return true, nil
	}
	a, probe := os.admit(w.gate.name, w.longest(), w.set.Backoff)
	w.probe = probe
	switch {
	case a.refused != nil:
		return false, a.refused
	case a.silence == nil:
		return true, nil
	}
	defer w.outages.left(a.silence)
	w.update(func(c *contender, _ time.Time) *bid { c.fault, c.seen = a.fault, sighting{}; return nil })
	w.notePause(true)
	last := w.lastMoment()
	if w.late() {
		last = w.patience.Until
	}
	if w.sleep(ctx, min(a.pause, time.Until(last)), a.silence.over, poke) {
		w.sleep(ctx, limits.Jitter(a.silence.spread+1), nil, poke)
	}
	return false, nil
}

// longest is how long a silence must last until w is refused at once.
func (w *waiter) longest() time.Duration {
	return max(w.patience.Until.Sub(w.patience.Start), limits.Try(w.set.TTL))
}

// unprobe ends a probe of w, if there is one.
func (w *waiter) unprobe(inVain bool) {
	if w.probe != nil {
		w.outages.unprobe(w.probe, inVain, w.set.Backoff)
		w.probe = nil
	}
}

// noteTry notes what a try of w, which ended with err, has told.
func (w *waiter) noteTry(ctx context.Context, h hearing, err error) {
	n, is := w.outages.note(w.gate.name, h, err)
	w.unprobe(h != nothing)
	if is {
		w.events.Outage(ctx, nil, w.gate.key, n)
	}
}
