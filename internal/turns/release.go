package turns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// ReleaseKey releases the key of t's grant, or hands it to the next process,
// and passes the floor on. ReleaseKey comes after an End that asked for it. If
// a call of this process still waits, the release queues it behind the others
// (law 9).
//
// ReleaseKey blocks until the answer, or for the limit of a release. ReleaseKey
// uses only the values of ctx. ReleaseKey returns nil, or an error of package
// locker: ErrLeaseLost if the key was not ours any more, or ErrUnavailable.
func (t *Turn) ReleaseKey(ctx context.Context) error {
	return t.releaseKey(t.limits.In(ctx, &t.ending, time.Now(), limits.Release(t.set.TTL)))
}

// releaseKey is ReleaseKey, but for its limit. releaseKey blocks until ctx
// ends.
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

// mayRelease ends t's grant, and waits for a renewal in flight until ctx ends.
// mayRelease returns false if there is no key to release, or none that can be
// released now.
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

// nextBid makes the bid that the release queues for the first in line. nextBid
// returns nil if nobody is there, or if that call recalls. Such a call must
// look for a record before it is queued (law 17).
func (t *Turn) nextBid(gr *grant) (*bid, *locker.Claim) {
	next := t.gate.beginRelease(gr)
	if next == nil || next.recalls() {
		return nil, nil
	}
	b := next.newBid(time.Now())
	t.gate.update(func(c *contender, _ time.Time) *bid { c.beginQueuing(b); return nil })
	return b, &b.claim
}

// sendRelease asks the locker to release t's key, and to keep t's record if
// there is one. sendRelease returns the answer, the bid that may be queued by
// it, and when it was sent.
func (t *Turn) sendRelease(ctx context.Context, next *bid, claim *locker.Claim) (locker.Released, *bid, time.Time,
	error,
) {
	if t.keeps() {
		return t.keepKey(ctx, next, claim)
	}
	sent := time.Now()
	r, err := t.store.Release(ctx, &t.grant.bid.claim, claim)
	return r, next, sent, err
}

// keepKey is sendRelease for a turn with a record. keepKey repeats a request
// without an answer, after the pauses of the backoff, until ctx ends (law 19).
func (t *Turn) keepKey(ctx context.Context, next *bid, claim *locker.Claim) (locker.Released, *bid, time.Time, error) {
	gt, b, joins := t.gate, t.grant.bid, t.gate.joined()
	sent := time.Now()
	released, err := t.keepOnce(ctx, claim)
	for n := 0; errors.Is(err, locker.ErrUnavailable) && t.pauses(ctx, n); n++ {
		b.unclear = true
		// Nobody knows whether it is in the queue.
		gt.update(func(c *contender, _ time.Time) *bid { return c.cancelQueuing(next) })
		next, sent = nil, time.Now()
		released, err = t.keepOnce(ctx, nil)
	}
	if err == nil {
		r := t.patience.Recall
		r.recorded = true
		gt.recorded(r.keep.Value, joins)
	}
	return released, next, sent, err
}

// keepOnce makes one request that keeps t's record. keepOnce leaves time for
// others.
func (t *Turn) keepOnce(ctx context.Context, next *locker.Claim) (locker.Released, error) {
	store, ok := t.store.(locker.Recorder)
	if !ok {
		panic("turns: a record for a locker that keeps none")
	}
	return store.Keep(t.bounded(ctx, limits.Release(t.set.TTL)/3), &t.grant.bid.claim, next, t.patience.Recall.keep)
}

// pauses pauses after the n-th request (from 0) without an answer. pauses
// returns false if ctx has ended.
func (t *Turn) pauses(ctx context.Context, n int) bool {
	timer := time.NewTimer(t.set.Backoff.Pause(n))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// released notes the answer to a release that was sent at the given time. next
// is the bid that it was to queue, or nil. released returns the error of
// ReleaseKey.
func (t *Turn) released(released locker.Released, err error, next *bid, sent time.Time) error {
	gr, gt := t.grant, t.gate
	if errors.Is(err, locker.ErrLeaseLost) {
		err = gr.taken(err)
	} else {
		_, err = usable(err)
	}
	if err == nil || errors.Is(err, locker.ErrLeaseLost) {
		gt.outages.answered(gt.name)
		if gt.released(released, next, sent, t.set.Backoff) {
			gt.home.spare(gt)
		}
	} else {
		gt.update(func(c *contender, _ time.Time) *bid { return c.cancelQueuing(next) })
		gr.bid.unclear = true
	}
	if gr.bid.unclear {
		gr.abandon(true)
	}
	return err
}

// releaseTogether releases the keys of ts with one request.
func releaseTogether(ctx context.Context, several locker.Several, ts []*Turn, errs []error) {
	var at []int // the turns that release, by their places in ts
	for i, t := range ts {
		may, err := t.mayRelease(ctx)
		if errs[i] = err; may {
			at = append(at, i)
		}
	}
	cs, nexts, bids := make([]*locker.Claim, len(at)), make([]*locker.Claim, len(at)), make([]*bid, len(at))
	answered := false
	defer func() {
		for n, i := range at {
			if !answered { // after a panic or Goexit of an observer or the locker
				_ = ts[i].released(locker.Released{}, locker.ErrUnavailable, bids[n], time.Now())
			}
		}
		for _, t := range ts {
			t.passFloor()
		}
	}()
	for n, i := range at {
		cs[n] = &ts[i].grant.bid.claim
		bids[n], nexts[n] = ts[i].nextBid(ts[i].grant)
	}
	if len(cs) == 0 {
		return
	}
	sent, answers, failures := time.Now(), make([]locker.Released, len(cs)), make([]error, len(cs))
	several.ReleaseAll(ctx, cs, nexts, func(n int, r locker.Released, err error) { answers[n], failures[n] = r, err })
	answered = true
	for n, i := range at {
		errs[i] = ts[i].released(answers[n], failures[n], bids[n], sent)
	}
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
	ctx = e.bounded(ctx, limits.Release(ts[0].set.TTL))
	if several, ok := e.store.(locker.Several); ok && len(ts) > 1 && !ts[0].grant.crowded() {
		releaseTogether(ctx, several, ts, errs)
		return errs
	}
	todo := make(chan int, len(ts))
	for i := range ts {
		todo <- i
	}
	close(todo)
	var wg sync.WaitGroup
	for range min(len(ts), releasers) {
		wg.Go(func() { // ends when nothing is left to do
			for i := range todo {
				errs[i] = ts[i].releaseKey(ctx)
			}
		})
	}
	wg.Wait()
	return errs
}
