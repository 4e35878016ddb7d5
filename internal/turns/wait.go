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

// The methods in this file bring a turn to its begin: it joins the gate, stands
// in line, contends and tries.

// errNoWait ends a wait without the key, and becomes a Refusal.
var errNoWait = errors.New("guard: would have to wait")

// These end a wait right behind a warden, or for the answer to another call.
var (
	errWardenHangs = fmt.Errorf("%w: %w to the release of the key, which was idle",
		locker.ErrUnavailable, locker.ErrSilent)
	errWardenWaits = fmt.Errorf("%w: the key was idle, and its release has yet to be answered",
		locker.ErrUnavailable)
	errAnswerWaits = fmt.Errorf("%w: another call here asks for the key, and has yet to be answered",
		locker.ErrUnavailable)
)

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
		t.arrive(t.grant.bid.claim.Holder.Instance)
	}
	return refusal, err
}

// quit gives up a turn that has not begun, wherever it is. quit also gives up
// what the turn was handed on its way.
func (t *Turn) quit() {
	gr, b := t.gate.quit(t)
	if gr != nil {
		gr.discard()
	}
	t.abandonBid(b)
	t.Leave()
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
	if err := t.outages.refuses(t.gate.name, t.longest()); err != nil && t.gate.contends() {
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

// wait stands in line, contends and begins. wait starts over if a grant does
// not last until then.
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

// standInLine waits until t is given the floor.
func (t *Turn) standInLine(ctx context.Context, given <-chan struct{}) error {
	until := t.patience.Until
	if t.second || t.asksBeside() { // these wait for an answer
		until = t.lastMoment()
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-given:
		return t.verdict
	case <-timer.C:
		switch {
		case t.second: // nobody has the key
			return t.wardenHangs(ctx)
		case t.asksBeside() && t.gate.unheard():
			return errAnswerWaits
		}
		return errNoWait
	case <-ctx.Done():
		return ErrEnded
	case <-t.calls.closing:
		return locker.ErrClosed
	}
}

// wardenHangs returns why t has waited for a warden in vain. If the release was
// under way as long as t waited, that is silence, as that of a try.
func (t *Turn) wardenHangs(ctx context.Context) error {
	now, limit := time.Now(), limits.Try(t.set.TTL)
	if !t.gate.hangs(now, limit-timelimit.Short) {
		return errWardenWaits
	}
	t.noteTry(ctx, heardByTry(errWardenHangs, now.Sub(t.joined), limit, true), errWardenHangs)
	return errWardenHangs
}

// stood reports whether t has stood in line behind another call.
func (t *Turn) stood() bool { return t.given != nil && !t.second }

// begin starts t's turn on gr. begin returns false if too little of gr is left.
func (t *Turn) begin(gr *grant) bool {
	now := time.Now()
	if !gr.begin(t, now) {
		return false
	}
	t.gate.began(t, now)
	return true
}

// stopped returns why the wait ends at once, or nil.
func (t *Turn) stopped(ctx context.Context) error {
	select {
	case <-t.calls.closing:
		return locker.ErrClosed
	case <-ctx.Done():
		return ErrEnded
	default:
		return nil
	}
}

// lastMoment is when the last try must have ended. A short wait may take the
// full limit of one try.
func (t *Turn) lastMoment() time.Time {
	if first := t.patience.Start.Add(limits.Try(t.set.TTL)); first.After(t.patience.Until) {
		return first
	}
	return t.patience.Until
}

// refusal describes why t goes without the key, now that it does not wait any
// longer. The next call will hardly have a shorter wait than t had in vain.
func (t *Turn) refusal(now time.Time) (Refusal, error) {
	r, fault := t.gate.known(now)
	if fault != nil {
		return Refusal{}, cmp.Or(t.fault, fault)
	}
	r.Expected = max(r.Expected, now.Sub(t.joined))
	r.Here = !t.patience.Once && !t.asks && t.gate.heldHere(t.joined)
	r.Cooldown = t.cooldown(r.Holder, now)
	if r.Cooldown > 0 && !t.gate.othersWait(t) {
		r.Expected = 0 // the end of MinHold is known
	}
	return r, ErrHeld
}

// cooldown returns how long MinHold alone keeps the key that t goes without, or
// 0. The result is exact for a turn of this process. For another process that
// does the same work it may be too long, but not too short.
func (t *Turn) cooldown(holder locker.Holder, now time.Time) time.Duration {
	if gr := t.gate.holding(); gr != nil {
		return gr.cooldown(now)
	}
	return t.set.cooldownElsewhere(holder, now)
}

// among reports whether t is one of the first joins calls. The counts may wrap.
func (t *Turn) among(joins uint32) bool { return int32(joins-t.order) >= 0 }

// asksBeside reports whether t has one attempt, and need not be alone.
func (t *Turn) asksBeside() bool { return t.patience.Once && t.set.Limit != 0 }

// alsoFor reports for whom in line the answer to a try of t is one, too. Those
// are the first joins calls, which had joined when the try was sent. If t goes
// on to wait they are all, because nobody overtakes t.
func (t *Turn) alsoFor(joins uint32) func(w *Turn) bool {
	return func(w *Turn) bool { return !t.patience.Once || w.among(joins) }
}

// answered reports whether t has got a record. The gate's mutex is held.
func (t *Turn) answered() bool { return t.recalls() && t.patience.Recall.record != "" }

// learn gives a record to t, and reports whether t waits for one. The gate's
// mutex is held.
func (t *Turn) learn(record string) bool {
	if !t.recalls() {
		return false
	}
	if r := t.patience.Recall; r.record == "" {
		r.record, r.joined = record, true
	}
	return true
}

// contend does what the contender of the gate needs, until t has a grant or its
// wait ends. t has the floor.
func (t *Turn) contend(ctx context.Context) (gr *grant, err error) {
	defer t.noteWaits(false)
	defer t.unprobe(false) // after a panic of the locker
	for gr == nil && err == nil {
		var a action
		if a, err = t.nextAction(ctx); err != nil {
			break
		}
		switch a.do {
		case toTake:
			gr = t.accept(a)
		case toTry:
			gr, err = t.try(ctx, a)
		default:
			t.noteWaits(true)
			t.sleep(ctx, a.left, a.poke)
		}
	}
	if err == nil {
		err = t.stopped(ctx) // as the grant came: it goes to the next in line (law 10)
	}
	return gr, err
}

// nextAction returns what the contender needs next, as far as the patience of t
// allows. The error says why the wait is over.
func (t *Turn) nextAction(ctx context.Context) (action, error) {
	if err := t.stopped(ctx); err != nil {
		return action{}, err
	}
	now := time.Now()
	a, err := t.gate.next(t, now)
	t.abandonBid(a.over) // before it is granted
	left := t.patience.Until.Sub(now)
	late := t.attempts > 0 || t.stood() // a first try may take its full limit
	switch {
	case err != nil, a.do == toTake:
	case left <= 0 && t.asksAgain(now):
		a.do = toTry
	case !now.Before(t.lastMoment()), left <= 0 && late && !t.patience.Once:
		err = errNoWait
	case t.patience.Once:
		a.do = toTry
	case a.do == toTry && late && a.looks > left+limits.TryGrace:
		// The end of the wait would cut the look short. Such a look would tell
		// nothing, and cost the store a connection. A message may still come.
		a.do, a.left = toPause, left
	default:
		a.left = min(a.left, left)
	}
	return a, err
}

// noteWaits counts t among the waits of the engine, or takes it out.
func (t *Turn) noteWaits(waits bool) {
	switch {
	case t.waits == waits:
	case waits:
		t.paused.Add(1)
	default:
		t.paused.Add(-1)
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
	case <-t.calls.closing:
	}
}

// try sends the try that a asks for, if the store is not known to be silent.
// try returns a grant, or the error that ends the wait. If it returns neither,
// the caller looks again what is next.
func (t *Turn) try(ctx context.Context, a action) (*grant, error) {
	if may, err := t.admitted(ctx, a.poke); !may {
		return nil, err
	}
	sent, b := time.Now(), a.bid
	if b == nil {
		b = t.newBid(sent)
		b.claim.Lingers = t.lingers(sent)
	}
	limit := t.tryLimit(sent)
	cut := limit < limits.Try(t.set.TTL)
	how, joins := t.gate.beginTry(b, !t.patience.Once, sent)
	how.Rest = restFor(t.paused.Load())
	if b.claim.Lingers && !t.hears() {
		t.gate.missed() // that may have been called before the gate had the bid
	}
	answer, err := t.store.Acquire(t.limited(ctx, sent, limit), &b.claim, how)
	again := t.again(err, sent, limit)
	h, err := t.heard(ctx, err, sent, limit, again)
	refused, err := usable(err)  // if refused, trying again cannot help
	defer t.noteTry(ctx, h, err) // last, because a logger may panic
	switch {
	case err == nil && answer.Record != "":
		t.abandonBid(t.gate.foundRecord(t, answer.Record, joins))
		return nil, ErrRecorded
	case err == nil && answer.Acquired:
		if gr := t.won(b, sent, answer.Token); gr != nil {
			return gr, nil
		}
	case err == nil:
		t.blocker = answer.Holder
		t.habits.busy(t.gate.name)
		if t.ask(answer, sent) {
			return nil, nil
		}
		t.abandonBid(t.gate.tryHeld(t, answer, sent, joins))
	case errors.Is(err, locker.ErrClosed):
		return nil, err
	default:
		t.fault = moreTelling(t.fault, err)
		if errors.Is(err, locker.ErrUnsent) {
			t.unsent(cut, err)
		} else {
			t.unanswered(answer.Queued, cut, err)
		}
		if refused || !cut && !again {
			t.gate.tryFailed(t, err, joins, refused)
		}
		if refused {
			return nil, err
		}
	}
	if t.patience.Once && !again {
		return nil, errNoWait
	}
	return nil, nil
}

// again reports whether t, which has one attempt, tries once more. The store
// has given up the first try before its limit, because it had a connection that
// may have been forgotten on its way. Both tries together have the limit of one.
func (t *Turn) again(err error, sent time.Time, limit time.Duration) bool {
	return err != nil && t.patience.Once && t.attempts == 1 && timedOut(err) && time.Since(sent) < limit-timelimit.Short
}

// heard returns what a try of t has told of the store, and its error. A try
// that is made again tells nothing. The two count as one, whose error is that of
// the first if the second was not sent.
func (t *Turn) heard(ctx context.Context, err error, sent time.Time, limit time.Duration, again bool) (hearing, error) {
	full := limits.Try(t.set.TTL)
	switch {
	case again:
		t.early = sent
		return nothing, err
	case !t.early.IsZero():
		sent, limit = t.early, full
		if errors.Is(err, locker.ErrUnsent) {
			err = t.fault
		}
	}
	return heardByTry(err, time.Since(sent), limit, ctx.Err() == nil && limit >= full), err
}

// ask lets t, which has one attempt, wait a moment for a key that may be idle
// in another process. Otherwise nobody would have it, and t would be refused.
// ask reports whether t waits.
func (t *Turn) ask(a locker.Answer, sent time.Time) bool {
	if !t.patience.Once || !a.Lingers {
		return false
	}
	now := time.Now()
	t.asks, t.patience.Once = true, false
	t.patience.Until = earlier(t.lastMoment(), now.Add(max(limits.Ask, 3*now.Sub(sent))))
	t.gate.update(func(c *contender, now time.Time) *bid { c.tryBusy(a, now); return nil })
	return true
}

// asksAgain reports whether t, whose wait for an idle key is over, looks once
// more. The key may be its own, and the message late or lost.
func (t *Turn) asksAgain(now time.Time) bool {
	if !t.asks || t.asked || !now.Before(t.lastMoment()) {
		return false
	}
	t.asked = true
	return true
}

// unsent records that a try was not sent, because of err.
func (t *Turn) unsent(cut bool, err error) {
	spread := min(wakeSpread(t.paused.Load()), locker.QueueLife/2)
	t.gate.update(func(c *contender, now time.Time) *bid {
		c.tryUnsent(cut, err, now, t.set.Backoff, spread)
		return nil
	})
}

// unanswered records that a try ended with err, without an answer. queued says
// that the bid may be in the queue, and cut that the try had less than its full
// limit.
func (t *Turn) unanswered(queued, cut bool, err error) {
	t.gate.update(func(c *contender, now time.Time) *bid {
		return c.tryUnanswered(queued, cut, err, now, t.set.Backoff)
	})
}

// newBid makes a bid under an owner id that was never used before (law 2).
// newBid names the trace of t's call.
func (t *Turn) newBid(now time.Time) *bid {
	s := t.set
	return &bid{terms: t.terms(), claim: locker.Claim{
		Key: t.gate.name, Owner: lockerkit.NewID(), TTL: s.TTL, Fencing: s.Fencing, Limit: s.Limit,
		Recall: t.recalls(),
		Holder: locker.Holder{
			Host: hostname(), PID: pid, Since: now, Name: s.Name,
			Traceparent: t.events.Traceparent(t.ctx),
		},
	}}
}

// terms are what t asks for.
func (t *Turn) terms() terms {
	all := t.set.terms()
	all.recall = t.recalls()
	return all
}

// tryLimit bounds the next try, so that the wait ends in time.
func (t *Turn) tryLimit(now time.Time) time.Duration {
	limit, left := limits.Try(t.set.TTL), t.lastMoment().Sub(now)
	if left > limit {
		return limit
	}
	return min(limit, left+limits.TryGrace)
}

// limited counts a try. limited returns a context for it with this limit.
func (t *Turn) limited(ctx context.Context, sent time.Time, limit time.Duration) context.Context {
	memory := &t.firstTry
	if t.attempts++; t.attempts > 1 {
		memory = new(timelimit.Limit)
	}
	return t.limits.In(ctx, memory, sent, limit)
}

// won makes a grant of a try that succeeded. won returns nil if the answer was
// too slow.
func (t *Turn) won(b *bid, sent time.Time, token uint64) *grant {
	now := time.Now()
	gr := newGrant(t, b, sent, b.claim.First(), token, now)
	if t.set.Linger > 0 && t.attempts == 1 {
		t.habits.took(t.gate.name)
	}
	if b.claim.Lingers {
		gr.linger(t, now)
	}
	if gr.trust.enough(now) {
		t.gate.tryWon(gr)
		return gr
	}
	err := fmt.Errorf("%w: the answer took %v of a lease of %v", locker.ErrUnavailable, now.Sub(sent), gr.trust.length)
	b.unclear = true
	t.unanswered(true, false, err)
	return nil
}

// accept makes a grant of the offer that a has taken. If too little of it is
// left, accept returns nil, and the next try acquires the key again under the
// same owner id (law 1).
func (t *Turn) accept(a action) *grant {
	now, length := time.Now(), min(a.offer.Length, a.bid.claim.LongOffer())
	if !trustFrom(a.since, length).enough(now) {
		return nil
	}
	gr := newGrant(t, a.bid, a.since, length, a.offer.Token, now)
	gr.renewSoon(now)
	t.gate.tryWon(gr)
	return gr
}

// beginAhead begins t on the grant that its group has got. beginAhead returns
// false if there is none, or if t must look again why its wait ends.
func (t *Turn) beginAhead(ctx context.Context) bool {
	gr, has, _ := t.gate.stand(t)
	if !has || gr == nil || t.stopped(ctx) != nil || !t.begin(gr) {
		return false
	}
	t.arrive(gr.bid.claim.Holder.Instance)
	return true
}

// heldAhead records that somebody else owns the key. The next try, if there is
// one, comes at once and looks first.
func (t *Turn) heldAhead(a locker.Answer) {
	t.blocker = a.Holder
	t.gate.update(func(c *contender, now time.Time) *bid { c.tryBusy(a, now); return nil })
}

// unansweredAhead records that it is not known whether the bid of t has its
// key, or is queued. One error is for all claims of a request, and a part of
// them may have been sent, so locker.ErrUnsent says nothing of this one.
func (t *Turn) unansweredAhead(queued bool, err error) {
	t.fault = err
	t.unanswered(queued, false, err)
}

// admitted reports whether t may try now. If not, it has waited, and the caller
// looks again whether the wait of t is over. admitted returns the error of a
// turn that is refused. While all is well it costs an atomic load.
func (t *Turn) admitted(ctx context.Context, poke <-chan struct{}) (may bool, err error) {
	os := &t.outages
	if os.on.Load() == 0 {
		return true, nil
	}
	a, probe := os.admit(t.gate.name, t.longest(), t.set.Backoff)
	t.probe = probe
	switch {
	case a.refused != nil:
		return false, a.refused
	case a.silence == nil:
		return true, nil
	}
	t.gate.update(func(c *contender, _ time.Time) *bid { c.notAdmitted(a.fault); return nil })
	t.noteWaits(true)
	t.awaitAnswer(ctx, a, poke)
	return false, nil
}

// awaitAnswer waits for the end of a silence, or until t must look again.
func (t *Turn) awaitAnswer(ctx context.Context, a admission, poke <-chan struct{}) {
	defer t.outages.left(a.silence)
	last := t.lastMoment()
	if !t.patience.Once && (t.attempts > 0 || t.stood()) {
		last = t.patience.Until
	}
	timer := time.NewTimer(min(a.pause, time.Until(last)))
	defer timer.Stop()
	select {
	case <-a.silence.over:
		t.sleep(ctx, limits.Jitter(a.silence.spread+1), poke)
	case <-timer.C:
	case <-poke:
	case <-ctx.Done():
	case <-t.calls.closing:
	}
}

// longest is how long a silence must last until t is refused at once.
func (t *Turn) longest() time.Duration {
	return max(t.patience.Until.Sub(t.patience.Start), limits.Try(t.set.TTL))
}

// unprobe ends a probe of t, if there is one.
func (t *Turn) unprobe(inVain bool) {
	if t.probe != nil {
		t.outages.unprobe(t.probe, inVain, t.set.Backoff)
		t.probe = nil
	}
}

// noteTry notes what a try of t, which ended with err, has told.
func (t *Turn) noteTry(ctx context.Context, h hearing, err error) {
	n, is := t.outages.note(t.gate.name, h, err)
	t.unprobe(h != nothing)
	if is {
		t.events.Outage(ctx, nil, t.gate.key, n)
	}
}

// endedSilent reports whether err, with which the wait of t has ended, is the
// silence of the store.
func (t *Turn) endedSilent(err error) bool {
	return errors.Is(err, locker.ErrSilent) && t.outages.isSilent(t.gate.name)
}
