package turns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockorder"
	"github.com/go-lockguard/guard/locker"
)

// A grant is what this process holds of a key: an owner id in the store, and a
// time until which it may be trusted. Calls take turns on it. A grant ends by
// finish, when its tenure is over, or by lose, when it cannot be trusted any
// longer. After either nobody gets another turn on it.
//
// Invariant: once cause is set, it does not change, the timer is stopped and no
// renewal begins. timer is nil before the first turn. renewing is set exactly
// while a renewal is due or in flight. renewal waits in the renewer for a part
// of that time. A shared grant has neither a cooldown nor tokens.
type grant struct {
	*common
	gate   *gate
	events Events // of the turn that acquired it, for what happens between turns

	// bid has won. bid.unclear is written before the grant is shared, and by
	// its release.
	bid *bid

	// mu guards what follows. A method holds mu for a few
	// instructions, never across I/O or a callback.
	mu lockorder.Grant
	validity
	tenure tenure
	tokens tokens
	timer  *time.Timer // fires when trust ends, a renewal is due, or something in the tenure is
	wanted bool        // another process waits for the key, or did during this grant

	idler *idler // nil: it is never idle; set before the grant is shared

	// inside counts the turns that crowd has let in and that have not left,
	// begun or not. The gate's mutex guards it.
	inside int

	renewal renewal // the renewer's, guarded by its mutex
}

// newGrant returns the grant that b has won for t, now. The grant has a lease
// of the given length, counted from when its request was sent, and a block of
// fencing tokens or 0.
func newGrant(t *Turn, b *bid, sent time.Time, length time.Duration, token uint64, now time.Time) *grant {
	gr := &grant{
		common: t.common, gate: t.gate, events: t.events, bid: b,
		validity: validityFrom(&b.terms, sent, length), tenure: newTenure(now), tokens: tokens{block: token, turn: 1},
	}
	if gr.bid.terms.shared() {
		gr.tenure.last = math.MaxInt
	}
	return gr
}

// grantWon returns the grant that b has won for t by a try that was sent at the
// given time, or nil if the answer was too slow.
func grantWon(t *Turn, b *bid, sent time.Time, token uint64) *grant {
	now := time.Now()
	gr := newGrant(t, b, sent, b.claim.First(), token, now)
	if !gr.good(now) {
		return nil
	}
	if b.claim.Lingers {
		gr.linger(t, now)
	}
	return gr
}

// grantOffered returns the grant of the offer that a takes, or nil if too
// little of it is left. The offer grows by its second renewal, so that must be
// answered before the offer ends.
func grantOffered(t *Turn, a action) *grant {
	now, length := time.Now(), min(a.offer.Length, a.bid.claim.LongOffer())
	offered := trustFrom(a.since, length)
	if !offered.enough(now) || offered.left(now) < 2*limits.Likely(a.took) { // length may be 0
		return nil
	}
	gr := newGrant(t, a.bid, a.since, length, a.offer.Token, now)
	gr.took = a.took
	gr.renewSoon(now)
	return gr
}

// begin starts t's turn. begin returns false if too little of the grant is
// left.
func (gr *grant) begin(t *Turn, now time.Time) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if !gr.good(now) {
		return false
	}
	earlier := gr.tenure.begin(t, now)
	t.grant, t.number = gr, gr.tenure.begun
	if gr.idler.mayIdle() { // a turn that ends soon costs no renewal
		gr.renewAt, earlier = gr.firstRenewal(now), true
	}
	if earlier || gr.timer == nil {
		gr.arm(now)
	}
	return true
}

// attach makes o the occupant of t since began. attach returns why the grant
// has been lost, or nil.
func (gr *grant) attach(t *Turn, o Occupant, began time.Time) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t.occupant, t.began = o, began
	return gr.causeOf(t)
}

// endTurn ends t's turn. on is false if MaxHold has ended the turn before.
// cools reports that its cooldown begins; may says whether that is allowed.
// cause is why the grant was lost, or nil.
func (gr *grant) endTurn(t *Turn, may bool) (on, cools bool, cause error) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	on = gr.tenure.end(t)
	cools = on && may && gr.cool(t)
	return on, cools, gr.cause
}

// endOneOf ends t's turn if the grant is good and others are on it too, and
// returns the occupant of t.
func (gr *grant) endOneOf(t *Turn) (ended bool, o Occupant) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	ended = gr.cause == nil && gr.tenure.on.length > 1 && gr.tenure.end(t)
	return ended, t.occupant
}

// cool begins the cooldown of t, which has just ended, if it is too early to
// release the key. gr.mu is held.
func (gr *grant) cool(t *Turn) bool {
	now := time.Now()
	if t.set.MinHold == 0 || t.occupant == nil || gr.cause != nil || !now.Before(t.cooldownEnd()) {
		return false
	}
	gr.tenure.cool(t, t.cooldownEnd())
	gr.gate.retain() // until cooledDown or lose
	gr.arm(now)
	return true
}

// mayGoOn reports whether there may be another turn now.
func (gr *grant) mayGoOn() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	return gr.good(now) && gr.tenure.open(now)
}

// shorten lets the tenure end after the turns of the calls that wait now.
func (gr *grant) shorten(waiting int) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.tenure.shorten(waiting)
}

// want records that another process waits for the key. The tenure ends after
// the turns of the calls that wait here now. want reports whether that is news
// to a grant that may be idle, and how often a call took it when it was.
func (gr *grant) want(waiting int) (taken int, news bool) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.tenure.shorten(waiting)
	if news = gr.idler.mayIdle() && !gr.wanted; news {
		taken = gr.idler.taken
	}
	gr.wanted = true
	gr.tenure.sendSignals()
	return taken, news
}

// sendSignals sends the signals of the turns that are on.
func (gr *grant) sendSignals() {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.tenure.sendSignals()
}

// notify is [gate.notify] without the line.
func (gr *grant) notify(t *Turn, s *Signal) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t.signals.add(s)
	if t.signals.wanted || gr.wanted && !t.set.Lead {
		t.signals.send()
	}
}

// wantTurn is [Turn.Want].
func (gr *grant) wantTurn(t *Turn) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t.signals.wanted = true
	t.signals.send()
}

// listens reports whether a turn has signals that a waiting process would send.
func (gr *grant) listens() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	for t := gr.tenure.on.first; t != nil && gr.cause == nil; t = t.next {
		if len(t.signals.all) > 0 && !t.set.Lead {
			return true
		}
	}
	return false
}

// current returns the turns that are on.
func (gr *grant) current() []*Turn {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.tenure.on.all()
}

// err returns why t cannot be trusted, or nil.
func (gr *grant) err(t *Turn) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.errLocked(t)
}

// errLocked is err. gr.mu is held.
func (gr *grant) errLocked(t *Turn) error {
	if !t.listed {
		return locker.ErrLeaseLost
	}
	return gr.validity.err()
}

// causeOf returns why t, which has begun, was lost, as far as it was told; or
// nil. gr.mu is held.
func (gr *grant) causeOf(t *Turn) error {
	switch {
	case gr.cause == nil && gr.bid.terms.shared() && !t.listed: // expelled
		return overLong(t.set.MaxHold)
	case errors.Is(gr.cause, errFinished):
		return nil
	}
	return gr.cause
}

// endedBy returns when a grant that is found lost now ended at the latest. The
// process may have slept past its deadline.
func (gr *grant) endedBy(now time.Time) time.Time {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return now.Add(min(gr.trust.left(now), 0))
}

// deadline returns until when the grant is trusted.
func (gr *grant) deadline() time.Time {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.trust.mono
}

// heldBy returns what the store shows of the grant: its holder, and the time
// left unless it is renewed.
func (gr *grant) heldBy(now time.Time) (locker.Holder, time.Duration) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.bid.claim.Holder, max(0, gr.trust.expiry().Sub(now))
}

// keptFrom reports whether the current turn has kept the key from w during its
// whole wait. A key that WithMinHold keeps is nobody's. cooldown is how long
// MinHold alone keeps the key.
func (gr *grant) keptFrom(w *Turn, now time.Time) (here bool, cooldown time.Duration) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t := gr.tenure.on.first
	here = t != nil && t.occupant != nil && !t.began.After(w.joined)
	if gr.tenure.cooling != nil {
		t = gr.tenure.cooling
	}
	switch {
	case t == nil:
	case t.occupant == nil: // the turn has just begun
		cooldown = t.set.MinHold
	default:
		cooldown = max(0, t.cooldownEnd().Sub(now))
	}
	return here, cooldown
}

// state describes t, which had its turn on gr, as it was lost.
func (gr *grant) state(t *Turn) HoldState {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.stateLocked(t)
}

// states describes the turns that are on, or the one that cools down or gives
// the key back. That one has the floor. With nobody on the floor gr is idle.
func (gr *grant) states(floor *Turn) (all []HoldState) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	on := gr.tenure.on.all()
	switch {
	case gr.tenure.cooling != nil:
		on = append(on, gr.tenure.cooling)
	case floor != nil && floor.grant == gr && !floor.listed:
		on = append(on, floor)
	case floor == nil && !gr.tenure.stayUntil.IsZero():
		return []HoldState{{
			Name: gr.idler.set.Name, Owner: gr.bid.claim.Owner, Since: gr.idler.since, Until: gr.trust.mono, Idle: true,
		}}
	}
	for _, t := range on {
		if t.occupant != nil {
			all = append(all, gr.stateLocked(t))
		}
	}
	return all
}

// stateLocked is state. gr.mu is held.
func (gr *grant) stateLocked(t *Turn) HoldState {
	return HoldState{
		Occupant: t.occupant, Name: t.set.Name, Owner: gr.bid.claim.Owner, Since: t.began, MaxHold: t.set.MaxHold,
		Until: gr.trust.mono, Err: gr.causeOf(t), Cooldown: gr.tenure.cooling == t, Limit: t.set.Limit,
	}
}

// arm sets the timer to whatever is due next. gr.mu is held.
func (gr *grant) arm(now time.Time) {
	next, at := gr.trust.left(now), gr.tenure.due()
	if !at.IsZero() {
		next = min(next, at.Sub(now))
	}
	if !gr.renewAt.IsZero() && gr.renewing == nil {
		next = min(next, gr.renewAt.Sub(now))
	}
	if l := gr.idler; l != nil {
		at = now.Add(next)
		if !l.armed.IsZero() && !at.Before(l.armed) {
			return // tick finds nothing due, and arms again: a turn costs no timer
		}
		l.armed = at
	}
	if gr.timer == nil {
		gr.timer = time.AfterFunc(limits.Apart(next), gr.tick)
	} else {
		gr.timer.Reset(limits.Apart(next))
	}
}

// tick does what is due. tick runs in the timer's goroutine. due sets the timer
// again before act, which may take long, so that nothing delays the deadline.
func (gr *grant) tick() {
	if act := gr.due(time.Now()); act != nil {
		defer gr.background.end()
		act()
	}
}

// due hands a renewal that is due to the renewer. If something else is due, it
// returns that as act, for the caller to run in the background without gr.mu.
func (gr *grant) due(now time.Time) (act func()) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	defer func() {
		if act != nil {
			gr.background.begin()
		}
	}()
	if gr.idler != nil {
		gr.idler.armed = time.Time{}
	}
	switch {
	case gr.cause != nil:
		return nil // ended while the timer fired
	case gr.trust.left(now) <= 0:
		cause := gr.overdue(now)
		return func() { gr.lose(cause) }
	}
	switch event, t := gr.tenure.next(now); {
	case event == maxHoldDue:
		act = func() { gr.expel(t) }
	case event == cooldownDue:
		act = t.cooledDown
	case event == idleDue:
		act = func() { gr.gate.endIdle(gr) }
	case event == halfDue:
		if t.occupant != nil {
			act = t.occupant.HalfTime
		}
	case !gr.renewAt.IsZero() && gr.renewing == nil && !now.Before(gr.renewAt):
		gr.renewing = make(chan struct{})
		gr.commit()
		gr.renewer.add(gr, limits.Renew(gr.bid.terms.ttl), limits.Likely(gr.took), now.Add(gr.trust.left(now)))
	}
	gr.arm(now)
	return act
}

// doubt makes a renewal due now, or after the one under way, because the key
// may have been released by force. The renewal tells whether the grant is still
// held.
func (gr *grant) doubt() {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.revoked = time.Now()
	gr.commit()
	if gr.cause == nil && gr.renewing == nil {
		gr.renewAt = gr.revoked
		gr.arm(gr.revoked)
	}
}

// renewed takes the answer to a renewal that was sent at the given time.
// renewed does not block, because other answers wait behind it.
func (gr *grant) renewed(sent time.Time, err error) Renewal {
	r, lost := gr.noteRenewal(sent, err)
	if !lost {
		return r
	}
	cause := gr.taken(err)
	if told := gr.markLost(nil, cause); len(told) > 0 {
		background := &gr.background
		background.begin()
		go func() { // in the background, because an observer may be slow; ends with it
			defer background.end()
			for _, o := range told {
				o.Lost(cause)
			}
		}()
	}
	return r
}

// noteRenewal is renewed without the end of a grant that is lost.
func (gr *grant) noteRenewal(sent time.Time, err error) (r Renewal, lost bool) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	now := time.Now()
	left := gr.trust.left(now)
	r = Renewal{Err: err, Left: left, Late: left < gr.trust.half(gr.bid.terms.ttl, gr.renewAt)}
	close(gr.renewing)
	gr.renewing = nil
	if gr.cause != nil || gr.answered(sent, now, gr.bid.renewed(), err) {
		return r, gr.cause == nil
	}
	gr.arm(now)
	return r, false
}

// tellRenewal reports the result of a renewal to the events of the current
// turn. Between turns it reports to the events of the turn that acquired the
// grant.
func (gr *grant) tellRenewal(r Renewal) {
	events, o := gr.events, Occupant(nil)
	gr.mu.Lock()
	if t := gr.tenure.on.first; t != nil && t.occupant != nil {
		events, o = t.events, t.occupant
	}
	gr.mu.Unlock()
	events.Renewed(o, gr.gate.key, r)
	ctx := context.Background() //nolint:forbidigo // a batch belongs to no caller
	gr.tell(ctx, events, o, gr.gate, r.Err)
}

// awaitRenewal waits for a renewal in flight, so that afterwards only our
// release is on its way to the store. awaitRenewal returns false if ctx ends
// first. The grant has ended, so no other renewal begins.
func (gr *grant) awaitRenewal(ctx context.Context) bool {
	gr.mu.Lock()
	renewing := gr.renewing
	gr.mu.Unlock()
	return renewing == nil || gr.renewer.forget(gr) || await(ctx, renewing)
}

// lose ends a grant that cannot be trusted any longer, and tells its occupants.
// The floor goes on, because the function may not notice for long. The key in
// the store is freed when the function has returned.
func (gr *grant) lose(cause error) { gr.loseBy(nil, cause) }

// loseBy is lose because of t, unless t has ended: the grant is that of others
// then.
func (gr *grant) loseBy(t *Turn, cause error) {
	for _, o := range gr.markLost(t, cause) {
		o.Lost(cause)
	}
}

// markLost is loseBy, but for the occupants. markLost returns those to tell. by
// may be nil.
func (gr *grant) markLost(by *Turn, cause error) (told []Occupant) {
	gr.mu.Lock()
	if gr.cause != nil || by != nil && !by.listed {
		gr.mu.Unlock()
		return nil
	}
	gr.end(cause)
	for _, t := range gr.tenure.on.all() {
		if t.occupant != nil { // otherwise attach will return the cause
			told = append(told, t.occupant)
		}
	}
	cooled := gr.tenure.endCooldown()
	gr.mu.Unlock()

	gr.gate.dropLost(gr)
	if cooled != nil {
		gr.gate.leave()
	}
	if gr.idler != nil { // until now, because releaseIdle may have found the grant
		gr.gate.leave()
	}
	return told
}

// end ends the grant, and keeps tick from firing again. gr.mu is held.
func (gr *grant) end(cause error) {
	gr.cause = cause
	if gr.timer != nil {
		gr.timer.Stop()
	}
}

// expel ends the turn of t, which has lasted longer than MaxHold. The other
// members stay. If there are none, the grant is lost as one with a single turn
// is.
func (gr *grant) expel(t *Turn) {
	cause := overLong(t.set.MaxHold)
	expelled, o, last := gr.gate.expel(t, gr)
	if !expelled {
		gr.loseBy(t, cause)
		return
	}
	if last {
		gr.discard()
	}
	if o != nil { // otherwise attach will return the cause
		o.Lost(cause)
	}
}

// finish ends a grant whose tenure is over. finish reports whether it was still
// good.
func (gr *grant) finish() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.cause != nil {
		return false
	}
	gr.end(errFinished)
	if gr.idler != nil {
		gr.gate.leave() // which the caller has retained too
	}
	return true
}

// discard ends a grant that nobody will use, or use any longer, and leaves its
// release, with all that it has left in the store, to the locker (law 3).
func (gr *grant) discard() {
	gr.finish()
	gr.cleanUp(gr.bid)
}

// taken is the cause of a grant whose claim does not own its key any more. err
// is what the store has said.
func (gr *grant) taken(err error) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	switch {
	case !gr.revoked.IsZero():
		return errnote.With(fmt.Errorf("%w: the key was released by force", locker.ErrLeaseLost), errnote.Forced)
	case err == locker.ErrLeaseLost: //nolint:errorlint // the store says no more
		err = fmt.Errorf("%w: the key is not ours any more", err)
	}
	return errnote.With(err, errnote.Taken)
}

// Reasons why a grant ended.
var (
	errFinished    = errors.New("guard: the grant was released")
	errClosedUnder = errnote.With(fmt.Errorf("%w: %w", locker.ErrLeaseLost, locker.ErrClosed), errnote.Closed)
	errOutlived    = errnote.With(
		fmt.Errorf("%w: a lease inside it was not released before it", locker.ErrLeaseLost), errnote.Outlived)
)

// overLong is the cause of a grant whose turn has lasted longer than MaxHold.
func overLong(maxHold time.Duration) error {
	return errnote.With(fmt.Errorf("%w: %v", errnote.ErrMaxHold, maxHold), errnote.MaxHold)
}

// leftToTTL reports whether a key that was lost for the given cause is left to
// its TTL when the function returns.
func leftToTTL(alone bool, cause error) bool {
	return !alone || errors.Is(cause, locker.ErrClosed) || errors.Is(cause, errOutlived)
}

// tokens are the fencing tokens of a grant: a block, with one token for each
// turn from the turn on in which the block was reserved. The grant's mutex
// guards them.
type tokens struct {
	block    uint64        // the first; 0: none
	turn     int           // the turn that it belongs to
	fetching chan struct{} // closed when a block is answered; nil: no fetch is in flight
}

// reserved returns the token of the turn with the given number, if there is
// one, or the fetch to wait for. If there is neither, and the turn is good, the
// caller fetches.
func (b *tokens) reserved(number int, good bool) (token uint64, fetching <-chan struct{}) {
	i := number - b.turn // the place in the block
	switch {
	case !good:
		return 0, nil
	case b.block != 0 && i < locker.FenceBlock:
		return b.block + uint64(i), nil
	case b.fetching != nil:
		return 0, b.fetching
	}
	b.fetching = make(chan struct{})
	return 0, nil
}

// token returns the fencing token of t, which is its place in the block that
// was reserved in its turn or an earlier one. Only the turn itself fetches a
// block, one at a time, so a number can neither repeat nor fall behind.
func (gr *grant) token(ctx context.Context, t *Turn) (uint64, error) {
	for {
		gr.mu.Lock()
		err := gr.errLocked(t)
		token, fetching := gr.tokens.reserved(t.number, err == nil)
		gr.mu.Unlock()
		switch {
		case err != nil || token != 0:
			return token, err
		case fetching == nil:
			if err := gr.fetch(ctx, t); err != nil {
				return 0, err
			}
		case !await(ctx, fetching): // of another caller of this turn, or a late one of a turn before
			return 0, context.Cause(ctx)
		}
	}
}

// fetch reserves a block for t. A block that comes after the end of the turn is
// thrown away.
func (gr *grant) fetch(ctx context.Context, t *Turn) error {
	block, err := gr.store.Fence(gr.limits.Within(ctx, limits.Try(gr.bid.terms.ttl)), &gr.bid.claim)

	gr.mu.Lock()
	close(gr.tokens.fetching)
	gr.tokens.fetching = nil
	if err == nil && t.listed && gr.cause == nil {
		gr.tokens.block, gr.tokens.turn = block, t.number
	}
	gr.mu.Unlock()

	if errors.Is(err, locker.ErrLeaseLost) {
		err = gr.taken(err)
		gr.lose(err)
	}
	return err
}

// linger makes gr, which t has just won by a claim that lingers, one that may
// be idle. gr is not shared yet. A grant that came by way of the queue ends as
// any other: an offer must be confirmed, and others want the key.
func (gr *grant) linger(t *Turn, now time.Time) {
	gr.renewSoon(now)
	if gr.bid.queued {
		return
	}
	gr.idler = &idler{set: t.set, brief: true, node: gr.outages.node(gr.gate.name)}
	gr.gate.retain() // until finish or lose
	gr.tenure.longest = max(limits.Idle(gr.trust.length), limits.TenureTime)
	if !gr.bid.terms.fencing { // otherwise one block of tokens is for all turns
		gr.tenure.last = math.MaxInt
	}
}

// commit ends that gr may be idle, because it is about to get its full TTL. A
// key whose turns are that long need not linger. gr.mu is held.
func (gr *grant) commit() {
	if gr.idler.mayIdle() {
		gr.idler.brief = false
		gr.tenure.longest = limits.TenureTime
		gr.lingerStats.ended(gr.gate.name, gr.idler.taken)
	}
}

// idle begins the time in which nobody has a turn on gr, for d at most. idle
// returns false if gr must be released. The tenure is over if another process
// wants the key, or messages may have been missed.
func (gr *grant) idle(d time.Duration, now time.Time) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	end := earlier(now.Add(d), gr.trust.sent().Add(limits.Idle(gr.trust.length)))
	if gr.cause != nil || !gr.idler.mayIdle() || !gr.tenure.open(now) || !now.Before(end) {
		return false
	}
	gr.tenure.stayUntil, gr.idler.since, gr.renewAt = end, now, time.Time{}
	gr.arm(now)
	return true
}

// resume reports whether another turn may begin on gr, which is idle.
func (gr *grant) resume(now time.Time) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if !gr.good(now) || !gr.tenure.open(now) {
		return false
	}
	gr.idler.taken++
	return true
}
