package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/timelimit"
	"github.com/go-lockguard/guard/locker"
)

// try sends one try. It returns a grant, or the error that ends the wait. If it
// returns neither, there may be another try.
func (t *Turn) try(ctx context.Context) (*grant, error) {
	e, sent := t.gate.engine, time.Now()
	b, limit := t.currentBid(sent), t.tryLimit(sent)
	cut := limit < limits.Try(t.set.TTL)
	how, joins := t.gate.beginTry(!t.patience.Once, sent)
	how.Rest = restFor(e.waits.Load())
	answer, err := e.locker.Acquire(t.limited(ctx, sent, limit), &b.claim, how)
	h := heardByTry(err, time.Since(sent), limit, ctx.Err() == nil && !cut)
	refused, err := usable(err)  // if refused, trying again cannot help
	defer t.noteTry(ctx, h, err) // last, because a logger may panic
	switch {
	case err == nil && answer.Record != "":
		t.abandonBid(t.gate.foundRecord(t, answer.Record, joins))
		return nil, ErrRecorded
	case err == nil && answer.Acquired:
		return t.won(b, sent, answer.Token), nil
	case err == nil:
		t.blocker = answer.Holder
		t.abandonBid(t.gate.tryHeld(answer, sent, joins, t.set.Backoff))
		return nil, nil
	case errors.Is(err, locker.ErrClosed):
		return nil, err
	}
	t.fault = moreTelling(t.fault, err)
	if errors.Is(err, locker.ErrUnsent) {
		t.gate.tryUnsent(cut, err, t.set.Backoff, min(wakeSpread(e.waits.Load()), locker.QueueLife/2))
	} else {
		t.abandonBid(t.gate.tryUnanswered(answer.Queued, cut, err, t.set.Backoff))
	}
	if refused {
		return nil, err
	}
	return nil, nil
}

// usable returns err as an error of package locker. refused reports that the
// store has said something of its own. A holder's claim is in as much doubt then
// as without an answer.
func usable(err error) (refused bool, _ error) {
	if err == nil || errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrClosed) {
		return false, err
	}
	return true, fmt.Errorf("%w: %w", locker.ErrUnavailable, err)
}

// moreTelling returns the later of two faults, unless the store has said
// something by the earlier one only. The last tries of a wait or a lease are cut
// short, and what the store said before tells more.
func moreTelling(fault, later error) error {
	if fault != nil && !wordless(fault) && wordless(later) {
		return fault
	}
	return later
}

// wordless reports whether err has nothing that the store has said.
func wordless(err error) bool {
	return timedOut(err) || errors.Is(err, locker.ErrSilent) || errors.Is(err, locker.ErrUnsent)
}

func timedOut(err error) bool {
	var timeout interface{ Timeout() bool } // as of a net.Error, and of context.DeadlineExceeded
	return errors.As(err, &timeout) && timeout.Timeout()
}

// currentBid returns the bid to go on with. That is the bid of the call that
// had the floor before, if its terms are the same. Otherwise it is a new bid.
func (t *Turn) currentBid(now time.Time) *bid {
	b, other := t.gate.bidFor(t.terms())
	t.abandonBid(other)
	if b == nil {
		b = t.newBid(now)
		t.gate.openBid(b)
	}
	return b
}

// tryLimit bounds the next try, so that the wait ends in time.
func (t *Turn) tryLimit(now time.Time) time.Duration {
	limit, left := limits.Try(t.set.TTL), t.lastMoment().Sub(now)
	if left > limit {
		return limit
	}
	return min(limit, left+limits.TryGrace)
}

// limited counts a try. It returns a context for it with this limit.
func (t *Turn) limited(ctx context.Context, sent time.Time, limit time.Duration) context.Context {
	memory := &t.firstTry
	if t.attempts++; t.attempts > 1 {
		memory = new(timelimit.Limit)
	}
	return t.gate.engine.limits.In(ctx, memory, sent, limit)
}

// won makes a grant of a try that succeeded. It returns nil if the answer was
// too slow.
func (t *Turn) won(b *bid, sent time.Time, token uint64) *grant {
	now := time.Now()
	gr := newGrant(t, b, sent, b.terms.ttl, token, now)
	if gr.trust.enough(now) {
		t.gate.tryWon(gr)
		return gr
	}
	err := fmt.Errorf("%w: the answer took %v of a TTL of %v", locker.ErrUnavailable, now.Sub(sent), b.terms.ttl)
	b.unclear = true
	t.abandonBid(t.gate.tryUnanswered(true, false, err, t.set.Backoff))
	return nil
}

// accept makes a grant of an offer that may be trusted from since on. If too
// little of it is left, it returns nil, and the next try acquires the key again
// under the same owner id (law 1).
func (t *Turn) accept(b *bid, o locker.Offer, since time.Time) *grant {
	now, length := time.Now(), min(o.Length, b.claim.LongOffer())
	if !trustFrom(since, length).enough(now) {
		return nil
	}
	gr := newGrant(t, b, since, length, o.Token, now)
	gr.renewSoon(now)
	t.gate.tryWon(gr)
	return gr
}

// ReleaseKey releases the key of t's grant, or hands it to the next process,
// and passes the floor on. It comes after an End that asked for it. If a call
// of this process still waits, the release queues it behind the others (law 9).
//
// It blocks until the answer, or for the limit of a release. It uses only the
// values of ctx. It returns nil, or an error of package locker: ErrLeaseLost if
// the key was not ours any more, or ErrUnavailable.
func (t *Turn) ReleaseKey(ctx context.Context) error {
	return t.releaseKey(t.gate.engine.limits.In(ctx, &t.ending, time.Now(), limits.Release(t.set.TTL)))
}

// releaseKey is ReleaseKey, but for its limit. It blocks until ctx ends.
func (t *Turn) releaseKey(ctx context.Context) error {
	defer t.passFloor()
	if may, err := t.mayRelease(ctx); !may {
		return err
	}
	var next *bid
	answered := false
	defer func() {
		if !answered { // after a panic or Goexit of an observer or the locker
			_ = t.released(locker.Released{}, locker.ErrUnavailable, next, time.Now())
		}
	}()
	next, claim := t.nextBid(t.grant)
	r, next, sent, err := t.sendRelease(ctx, next, claim)
	answered = true
	return t.released(r, err, next, sent)
}

// sendRelease asks the locker to release t's key, and to keep t's record if
// there is one. It returns the answer, the bid that may be queued by it, and
// when it was sent.
func (t *Turn) sendRelease(ctx context.Context, next *bid, claim *locker.Claim) (locker.Released, *bid, time.Time,
	error,
) {
	if t.keeps() {
		return t.keepKey(ctx, next, claim)
	}
	sent := time.Now()
	r, err := t.gate.engine.locker.Release(ctx, &t.grant.bid.claim, claim)
	return r, next, sent, err
}

// mayRelease ends t's grant, and waits for a renewal in flight until ctx ends.
// It returns false if there is no key to release, or none that can be released
// now.
func (t *Turn) mayRelease(ctx context.Context) (may bool, err error) {
	gr := t.grant
	switch {
	case !gr.finish():
		gr.abandon(gr.bid.unclear) // lost since the turn ended: nobody's loss any more
		return false, nil
	case !gr.awaitRenewal(ctx):
		gr.abandon(true)
		return false, fmt.Errorf("%w: a renewal hangs", locker.ErrUnavailable)
	}
	return true, nil
}

// released notes the answer to a release that was sent at the given time. next
// is the bid that it was to queue, or nil. It returns the error of ReleaseKey.
func (t *Turn) released(released locker.Released, err error, next *bid, sent time.Time) error {
	gr, gt := t.grant, t.gate
	if errors.Is(err, locker.ErrLeaseLost) {
		err = gr.taken(err)
	} else {
		_, err = usable(err)
	}
	if err == nil || errors.Is(err, locker.ErrLeaseLost) {
		gt.engine.outages.answered(gt.name)
		if gt.released(released, next, sent, t.set.Backoff) {
			gt.engine.gates.spare(gt)
		}
	} else {
		t.abandonBid(gt.cancelQueuing(next))
		gr.bid.unclear = true
	}
	if gr.bid.unclear {
		gr.abandon(true)
	}
	return err
}

// nextBid makes the bid that the release queues for the first in line. It
// returns nil if nobody is there, or if that call recalls. Such a call must
// look for a record before it is queued (law 17).
func (t *Turn) nextBid(gr *grant) (*bid, *locker.Claim) {
	next := t.gate.beginRelease(gr)
	if next == nil || next.recalls() {
		return nil, nil
	}
	b := next.newBid(time.Now())
	t.gate.beginQueuing(b)
	return b, &b.claim
}
