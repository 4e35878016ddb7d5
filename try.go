package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// tryGrace is what the last try of a wait may take beyond its end, so that it is not doomed.
const tryGrace = 25 * time.Millisecond

// try sends one try. It returns a grant, or the error that ends the wait, or neither: then there may be another try.
func (t *turn) try(ctx context.Context) (*grant, error) {
	b := t.bid()
	how := t.gate.beginTry(!t.once, time.Now())
	how.Rest = rest(t.guard.family.waits.Load())
	t.attempts++
	sent, limit := time.Now(), t.tryLimit()
	answer, err := t.guard.family.locker.Acquire(t.guard.family.limits.Within(ctx, limit), &b.claim, how)
	refused := err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed) // trying again cannot help
	if refused {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer t.noteTry(ctx, limit, err) // last, for a logger may panic
	switch {
	case err == nil && answer.Acquired:
		return t.won(b, sent, answer.Token), nil
	case err == nil:
		t.blocker = answer.Holder
		t.giveUp(t.gate.held(answer, sent, t.guard.backoff))
		return nil, nil
	case errors.Is(err, ErrClosed):
		return nil, err
	}
	t.fault = moreTelling(t.fault, err)
	t.giveUp(t.gate.unclear(answer.Queued, err, t.guard.backoff))
	if refused {
		return nil, err
	}
	return nil, nil
}

// moreTelling returns the later of two faults, unless that is only a timeout: the
// last try of a wait is cut short, and what the store said before tells more.
func moreTelling(fault, later error) error {
	if fault != nil && !timedOut(fault) && timedOut(later) {
		return fault
	}
	return later
}

func timedOut(err error) bool {
	var timeout interface{ Timeout() bool } // as of a net.Error, and of context.DeadlineExceeded
	return errors.As(err, &timeout) && timeout.Timeout()
}

// bid returns the bid to go on with: that of whoever had the floor before, if it is on the same terms, or a new one.
func (t *turn) bid() *bid {
	b, other := t.gate.bidFor(t.terms)
	t.giveUp(other)
	if b == nil {
		b = t.newBid()
		t.gate.open(b)
	}
	return b
}

func (t *turn) giveUp(b *bid) { b.abandon(t.guard.family.locker) }

// tryLimit bounds the next try, so that the wait ends in time.
func (t *turn) tryLimit() time.Duration {
	limit, left := tryLimit(t.guard.ttl), time.Until(t.lastMoment())
	if left > limit {
		return limit
	}
	return min(limit, left+tryGrace)
}

// won makes a grant of a try that succeeded, if the answer was not too slow.
func (t *turn) won(b *bid, sent time.Time, token uint64) *grant {
	gr := newGrant(t.guard, t.gate, b, sent, t.terms.ttl, token)
	now := time.Now()
	if gr.trust.left(now) >= minRemaining(t.terms.ttl) {
		t.gate.hold(gr)
		return gr
	}
	err := fmt.Errorf("%w: the answer took %v of a TTL of %v", ErrUnavailable, now.Sub(sent), t.terms.ttl)
	b.unclear = true
	t.giveUp(t.gate.unclear(true, err, t.guard.backoff))
	return nil
}

// accept makes a grant of an offer that may be trusted from since on. If too little of it is left, the next try acquires
// the key again under the same owner id (law 1).
func (t *turn) accept(b *bid, o locker.Offer, since time.Time) *grant {
	now, length := time.Now(), min(o.Length, b.claim.LongOffer())
	if trustFrom(since, length).left(now) < minRemaining(length) {
		return nil
	}
	gr := newGrant(t.guard, t.gate, b, since, length, o.Token)
	gr.renewSoon(now)
	t.gate.hold(gr)
	return gr
}

// giveBack releases the key of t's grant, or hands it to the next process, and passes the floor on. The turn has ended.
// If somebody here still waits, the release queues this process at the back (law 9).
func (t *turn) giveBack(ctx context.Context) error {
	gr, gt, l := t.grant, t.gate, t.guard.family.locker
	defer t.pass()
	if !gr.finish() {
		l.Abandon(gr.claim, gr.unclear) // lost since the turn ended: nobody's loss any more
		return nil
	}
	if !gr.join(ctx) {
		l.Abandon(gr.claim, true)
		return fmt.Errorf("%w: a renewal hangs", ErrUnavailable)
	}
	next, claim := t.nextBid(gr)
	sent := time.Now()
	released, err := l.Release(ctx, gr.claim, claim)
	if err == nil || errors.Is(err, ErrLeaseLost) {
		if gt.released(released, next, sent, t.guard.backoff) {
			t.guard.family.linger(gt)
		}
	} else {
		t.giveUp(gt.cancelQueuing(next))
		gr.unclear = true
	}
	if gr.unclear {
		l.Abandon(gr.claim, true)
	}
	return err
}

// nextBid makes the bid of the first in line, if there is one: the release queues it.
func (t *turn) nextBid(gr *grant) (*bid, *locker.Claim) {
	next := t.gate.beginRelease(gr)
	if next == nil {
		return nil, nil
	}
	b := next.newBid()
	t.gate.beginQueuing(b)
	return b, &b.claim
}
