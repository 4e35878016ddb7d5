package turns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/timelimit"
	"github.com/go-lockguard/guard/locker"
)

// A Turn is one caller's time on a key: first its place at the gate, then its
// number on a grant. The zero Turn is for one [Turn.Take]. After a Take that
// succeeded the caller attaches its occupant, and ends the turn once, by Drop
// or by End.
//
// Take, Begin, Unmark, Drop, End, ReleaseKey, Keeps, Recorded, Discard and
// Leave are called one after the other. The other methods are safe for
// concurrent use from the end of Take on.
//
// Invariant: grant is nil until the turn begins, and does not change
// afterwards. occupant is nil until Attach. The fields of waiting do not change
// after Take. entered is nil or, once the turn has begun, grant.
type Turn struct {
	*common
	gate   *gate
	set    *Settings
	events Events
	spot
	waiting

	grant            *grant
	number           int             // of the turn within the grant, from 1
	firstTry, ending timelimit.Limit // memory for the limits of the first try and of the release

	signals  signals   // guarded by grant.mu
	occupant Occupant  // is told when the grant is lost; guarded by grant.mu
	began    time.Time // when the occupant came; guarded by grant.mu
}

// waiting is what others see of the wait of a turn, and its result. What only
// the wait itself needs is in its [waiter].
type waiting struct {
	ctx          context.Context // also for a bid that is made on behalf of the turn
	patience     Patience
	joined       time.Time     // when the wait began
	attempts     int           // tries sent
	second       bool          // it stands right behind an idle releaser, which is no wait for a turn
	idleReleaser bool          // it has no caller, see [idler]
	idle         bool          // it took a grant that was idle
	blocker      locker.Holder // the last holder seen
}

// Take waits for a turn on key, and begins it. Take ends by max(p.Until, try
// limit) plus 50 ms, or when ctx does, but does not interrupt a try in flight.
// Take is for one use of t. s must not change while the turn lasts.
//
// The Refusal comes with ErrHeld and ErrFull. Other errors are ErrEnded and the
// errors of the locker.
func (t *Turn) Take(ctx context.Context, e *Engine, key string, s *Settings, ev Events, p Patience) (Refusal, error) {
	if !e.Enter() {
		return Refusal{}, locker.ErrClosed
	}
	*t = newTurn(ctx, &e.gates, key, s, ev, p)
	w := waiter{Turn: t}
	return w.take(ctx, false)
}

// newTurn returns a turn on key that has yet to join its gate.
func newTurn(ctx context.Context, all *gates, key string, s *Settings, ev Events, p Patience) Turn {
	return Turn{
		common: all.common, gate: all.enter(key), set: s, events: ev,
		waiting: waiting{ctx: ctx, patience: p, joined: time.Now()},
	}
}

// Tried tells how the wait of t went. Tried returns the number of tries,
// whether another turn handed its grant to t, whether t took an idle grant, and
// the last holder in the way. For a call that never came to try, that is the
// holder that this process knows of. An idle grant takes neither a request
// nor another turn.
func (t *Turn) Tried() (attempts int, handoff, idle bool, blocker locker.Holder) {
	blocker = t.blocker
	if t.attempts == 0 && t.gate != nil && !t.idle {
		known, _ := t.gate.known(time.Now())
		blocker = known.Holder
	}
	return t.attempts, t.number > 1, t.idle && t.attempts == 0, blocker
}

// Silent reports whether err, with which the Take of t has just ended, is the
// silence of the store. Silent is not true of a refusal, of a key that is held,
// or of a call that was turned away.
func (t *Turn) Silent(err error) bool {
	return errors.Is(err, locker.ErrSilent) && t.outages.isSilent(t.gate.name)
}

// Attach makes o the occupant, whose turn began at the given time. Attach
// returns why the grant has been lost already, or nil.
func (t *Turn) Attach(o Occupant, began time.Time) error { return t.grant.attach(t, o, began) }

// Err returns why the turn cannot be trusted, or nil. Err looks at the clocks.
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

// Token returns the fencing token of the turn. Token may make a request. It
// then blocks until that is answered or ctx ends. Token returns why the turn
// cannot be trusted, ErrUnavailable of package locker, or ctx's error.
func (t *Turn) Token(ctx context.Context) (uint64, error) { return t.grant.token(ctx, t) }

// Notify sends s once another call, here or elsewhere, waits for the key of t.
// One that waits already is enough. After a lost message s is sent at the next
// renewal, if the locker can be inspected.
func (t *Turn) Notify(s *Signal) {
	t.store.Listens() // opens the way of messages
	t.gate.notify(t, s)
}

// Want sends the signals of t, also those to come.
func (t *Turn) Want() { t.grant.wantTurn(t) }

// Outlived ends the grant, unless the turn was lost already, because a lease
// inside the turn was not released before it. Outlived blocks until the
// occupants are told, in a goroutine of the engine's.
func (t *Turn) Outlived() {
	var told sync.WaitGroup
	told.Go(func() { t.grant.loseBy(t, errOutlived) }) // ends before End, for which Close waits
	told.Wait()
}

// shared reports whether t may be beside any number of shared turns.
func (t *Turn) shared() bool { return t.set.Limit == locker.NoLimit }

// Begin marks the key before a function runs under t, which recalls (law 12).
// Begin blocks until the answer, or for the limit of a release. Begin repeats a
// request without an answer until then, and uses only the values of ctx.
//
// After an error no function may run, and the release removes the mark. The
// error is ErrRecorded if the key has a record, which the call's [Recall] has
// then. Otherwise it is ErrLeaseLost or ErrUnavailable of package locker.
func (t *Turn) Begin(ctx context.Context, mark locker.Record) error {
	var found string
	var joins uint32
	ctx = t.limits.Within(ctx, limits.Release(t.set.TTL))
	err := t.repeat(ctx, func(ctx context.Context) (err error) {
		joins = t.gate.joined()
		found, err = t.store.Begin(ctx, &t.grant.bid.claim, mark)
		return err
	})
	switch {
	case errors.Is(err, locker.ErrLeaseLost):
		err = t.grant.taken(err)
		t.grant.lose(err)
	case err == nil && found != "":
		t.gate.recorded(found, joins, t.patience.Recall)
		err = ErrRecorded
	default:
		_, err = usable(err)
	}
	if err != nil {
		t.Unmark()
	}
	return err
}

// repeat makes a request until it has an answer or ctx ends, with the pauses of
// the backoff between. Each request leaves time for others.
func (t *Turn) repeat(ctx context.Context, request func(ctx context.Context) error) error {
	for n := 0; ; n++ {
		err := request(t.limits.Within(ctx, limits.Release(t.set.TTL)/3))
		if !errors.Is(err, locker.ErrUnavailable) ||
			!lockerkit.Pause(t.set.Backoff.Pause(n), ctx.Done()) || ctx.Err() != nil {
			return err
		}
	}
}

// Unmark notes that no function has done anything under t. The end of t then
// keeps nothing, and removes the mark. Unmark comes before End.
func (t *Turn) Unmark() {
	t.patience.Recall.keep, t.grant.bid.unmark = locker.Record{}, true
}

// End ends a turn without any I/O. The grant passes to the next in line. If
// there is none, back reports that the caller must release the key, unless its
// cooldown begins. cool says whether that may be. cause is why the grant was
// lost, if it was.
//
// alone says that nothing runs on inside the turn. What is left of a lost key
// is then removed in the background, because the function has returned.
func (t *Turn) End(alone, cool bool) (back bool, cause error) {
	gr := t.grant
	on, cools, cause := gr.endTurn(t, cool)
	if !on || cause != nil {
		t.gate.turnReturned(t)
	}
	switch {
	case !on:
		cause = overLong(t.set.MaxHold)
	case cools: // cooledDown ends it later
	case cause == nil:
		// A hand-off would keep the record from the store, or leave the mark there.
		back = t.patience.Recall.keeps() || gr.bid.unmark || !t.gate.handOff(t, time.Now())
	case t.gate.exitGrant(gr) && !leftToTTL(alone, cause):
		gr.discard()
	}
	return back, cause
}

// cooldownEnd is until when the key of t stays taken. The grant's mutex is
// held.
func (t *Turn) cooldownEnd() time.Time { return t.began.Add(t.set.MinHold) }

// cooledDown ends the turn of t, whose cooldown is over, as any turn ends. The
// caller is a goroutine of the grant's timer.
func (t *Turn) cooledDown() {
	if !t.calls.enter() { // closed: the key is left to its TTL
		t.grant.lose(errClosedUnder)
		t.gate.leave()
		return
	}
	defer t.Leave()
	if t.gate.handOff(t, time.Now()) {
		return
	}
	err := t.ReleaseKey(t.ctx)
	if err != nil && !errors.Is(err, locker.ErrLeaseLost) {
		t.events.Unconfirmed(t.occupant, err)
	}
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

// ReleaseKey releases the key of t's grant, or hands it to the next process,
// and passes the floor on. ReleaseKey comes after an End that asked for it. If
// a call of this process still waits, the release queues it behind the others
// (law 7).
//
// ReleaseKey blocks until the answer, or for the limit of a release. ReleaseKey
// uses only the values of ctx. ReleaseKey returns nil, or an error of package
// locker: ErrLeaseLost if the key was not ours any more, or ErrUnavailable.
func (t *Turn) ReleaseKey(ctx context.Context) error {
	return releaseKey(t.limits.In(ctx, &t.ending, time.Now(), limits.Release(t.set.TTL)), t)
}

// NoteRelease notes an error of ReleaseKey, and tells the events if that is
// news. ReleaseKey does not, because no panic of a logger may end the goroutine
// that it runs in.
func (t *Turn) NoteRelease(ctx context.Context, err error) {
	t.tell(ctx, t.events, nil, t.gate, err)
}

// TellUnguarded reports whether to log that a function runs although t has
// ended without a turn.
func (t *Turn) TellUnguarded() bool { return t.outages.tellUnguarded(t.gate.name) }

// Keeps reports whether the end of t keeps a result.
func (t *Turn) Keeps() bool { return t.patience.Recall.keeps() && t.patience.Recall.result }

// Recorded reports whether the release of t has recorded a result.
func (t *Turn) Recorded() bool { return t.Keeps() && t.patience.Recall.recorded }

// recalls reports whether a record would end the wait of t.
func (t *Turn) recalls() bool { return t.patience.Recall != nil }

// passFloor gives the floor to the next in line. A bid that nobody is left to
// go on with is given up.
func (t *Turn) passFloor() { t.giveUp(t.gate.passFloor(t)) }

// update changes the contender of the gate by f, under its mutex. f returns a
// bid that is over by that, which is given up.
func (t *Turn) update(f func(c *contender, now time.Time) (over *bid)) {
	t.giveUp(t.gate.update(f))
}

// Leave ends the use of the gate and the engine. Leave is the last call. Leave
// comes after an End that asked for no release, or after the release. Drop
// calls it itself.
func (t *Turn) Leave() {
	t.gate.leave()
	t.calls.leave()
}

// retire is the last call of an idle releaser.
func (t *Turn) retire() {
	t.gate.leave()
	t.background.end()
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

// stood reports whether t has stood in line behind another call.
func (t *Turn) stood() bool { return t.given != nil && !t.second }

// asksBeside reports whether t has one attempt, and need not be alone.
func (t *Turn) asksBeside() bool { return t.patience.Once && t.set.Limit != 0 }

// alsoFor reports for whom in line the answer to a try of t is one, too. Those
// are the first joins calls, which had joined when the try was sent. If t goes
// on to wait they are all, because nobody overtakes t.
func (t *Turn) alsoFor(joins uint32) func(w *Turn) bool {
	return func(w *Turn) bool { return !t.patience.Once || w.among(joins) }
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
	s := t.set
	return terms{ttl: s.TTL, noRenewal: s.NoRenewal, fencing: s.Fencing, limit: s.Limit, recall: t.recalls()}
}

// A release gives the key of a turn that has ended back to the store, or hands
// it to the next process.
type release struct {
	*Turn
	next   *bid      // that the release queues for the first in line; nil: none
	sent   time.Time // the last request of it
	answer locker.Released
	err    error // of the answer, or why there is none
}

// begin ends the grant of r, and waits for a renewal in flight until ctx ends.
// begin reports whether a key is left to release, and one that can be released
// now.
func (r *release) begin(ctx context.Context) bool {
	gr := r.grant
	if !gr.finish() { // lost since the turn ended: nobody's loss any more
		r.cleanUp(gr.bid)
		return false
	}
	r.err = locker.ErrUnavailable // without an answer, as after a panic or Goexit of an observer or the locker
	if gr.awaitRenewal(ctx) {
		return true
	}
	r.err = fmt.Errorf("%w: a renewal hangs", locker.ErrUnavailable)
	gr.bid.unclear = true
	r.cleanUp(gr.bid)
	return false
}

// releaseKey is [Turn.ReleaseKey], but for its limit. releaseKey blocks until
// ctx ends.
func releaseKey(ctx context.Context, t *Turn) (err error) {
	defer t.passFloor()
	r := release{Turn: t}
	if r.begin(ctx) {
		defer func() { err = r.note() }()
		r.send(ctx, r.queue())
	}
	return r.err
}

// queue makes the bid that the release queues for the first in line. queue
// returns nil if nobody is there, or if that call recalls. Such a call must
// look for a record before it is queued (law 11).
func (r *release) queue() *locker.Claim {
	next := r.gate.beginRelease(r.grant)
	if next == nil || next.recalls() {
		return nil
	}
	r.next = next.newBid(time.Now())
	r.update(func(c *contender, _ time.Time) *bid { c.beginQueuing(r.next); return nil })
	return &r.next.claim
}

// send asks the locker to release the key, and to keep the record of the turn
// if there is one. next is the claim to queue.
func (r *release) send(ctx context.Context, next *locker.Claim) {
	end := locker.End{Next: next, Unmark: r.grant.bid.unmark}
	if r.patience.Recall.keeps() {
		r.keep(ctx, end)
		return
	}
	r.sent = time.Now()
	r.answer, r.err = r.store.Release(ctx, &r.grant.bid.claim, end)
}

// keep is send for a turn with a record. keep repeats a request without an
// answer (law 11). If none has an answer, the record is left to the cleanup.
func (r *release) keep(ctx context.Context, end locker.End) {
	b, recall, joins := r.grant.bid, r.patience.Recall, r.gate.joined()
	end.Record, b.recall = recall.keep, recall
	err := r.repeat(ctx, func(ctx context.Context) (err error) {
		r.sent = time.Now()
		r.answer, err = r.store.Release(ctx, &b.claim, end)
		if errors.Is(err, locker.ErrUnavailable) {
			b.unclear = true
			r.cancel() // nobody knows whether it is in the queue
			end.Next = nil
		}
		return err
	})
	if r.err = err; !errors.Is(err, locker.ErrUnavailable) {
		b.recall = nil // a late try may own the key again, without the record of this one (law 11)
	}
	if err == nil {
		recall.recorded = true
		r.gate.recorded(recall.keep.Value, joins, nil)
	}
}

// cancel takes back the bid of a release without an answer.
func (r *release) cancel() {
	r.update(func(c *contender, _ time.Time) *bid { return c.cancelQueuing(r.next) })
	r.next = nil
}

// note notes the answer. note returns the error of [Turn.ReleaseKey].
func (r *release) note() error {
	gr, gt, err := r.grant, r.gate, r.err
	if errors.Is(err, locker.ErrLeaseLost) {
		err = gr.taken(err)
	} else {
		_, err = usable(err)
	}
	if err == nil || errors.Is(err, locker.ErrLeaseLost) {
		r.outages.answered(gt.name)
		gt.released(r.answer, r.next, r.sent, r.set.Backoff)
	} else {
		r.cancel()
		gr.bid.unclear = true
	}
	if gr.bid.unclear {
		r.cleanUp(gr.bid)
	}
	return err
}

// releaseTogether is releaseKey for several turns, with one request. errs gets
// the error of each.
func releaseTogether(ctx context.Context, ts []*Turn, errs []error) {
	rs, at := make([]release, 0, len(ts)), make([]int, 0, len(ts)) // of those that have a key
	for i, t := range ts {
		r := release{Turn: t}
		if r.begin(ctx) {
			rs, at = append(rs, r), append(at, i)
		}
		errs[i] = r.err
	}
	defer func() {
		for i := range rs {
			errs[at[i]] = rs[i].note()
		}
		for _, t := range ts {
			t.passFloor()
		}
	}()
	if len(rs) == 0 {
		return
	}
	cs, ends := make([]*locker.Claim, len(rs)), make([]locker.End, len(rs))
	for i := range rs {
		rs[i].sent = time.Now()
		cs[i], ends[i].Next = &rs[i].grant.bid.claim, rs[i].queue()
	}
	ts[0].store.ReleaseAll(ctx, cs, ends, func(i int, answer locker.Released, err error) {
		rs[i].answer, rs[i].err = answer, err
	})
}

// releasers is how many releases of one call are under way at a time.
const releasers = 64

// ReleaseKeys is [Turn.ReleaseKey] for several turns with the same TTL, in one
// round trip if the locker can. ReleaseKeys blocks until all are answered, or
// for the limit of one release. ReleaseKeys returns the error of each.
func ReleaseKeys(ctx context.Context, ts []*Turn) []error {
	errs := make([]error, len(ts))
	if len(ts) == 0 {
		return errs
	}
	e := ts[0].common
	ctx = e.limits.Within(ctx, limits.Release(ts[0].set.TTL))
	if e.can.Several && len(ts) > 1 && !ts[0].grant.bid.terms.crowded() {
		releaseTogether(ctx, ts, errs)
		return errs
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, releasers)
	for i, t := range ts {
		places <- struct{}{}
		wg.Go(func() { // ends with ctx
			defer func() { <-places }()
			errs[i] = releaseKey(ctx, t)
		})
	}
	wg.Wait()
	return errs
}
