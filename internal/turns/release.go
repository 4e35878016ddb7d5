package turns

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// A release gives the key of a turn that has ended back to the store, or hands
// it to the next process.
type release struct {
	*Turn
	next *bid      // that the release queues for the first in line; nil: none
	sent time.Time // the last request of it
	done bool      // its answer is noted

	// The answer, where one request releases several keys.
	answer locker.Released
	failed error
}

// releaseKey is [Turn.ReleaseKey], but for its limit. releaseKey blocks until
// ctx ends.
func releaseKey(ctx context.Context, t *Turn) error {
	defer t.passFloor()
	if may, err := t.mayRelease(ctx); !may {
		return err
	}
	r := release{Turn: t}
	defer r.settle()
	return r.note(r.send(ctx, r.queue()))
}

// queue makes the bid that the release queues for the first in line. queue
// returns nil if nobody is there, or if that call recalls. Such a call must
// look for a record before it is queued (law 17).
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
func (r *release) send(ctx context.Context, next *locker.Claim) (locker.Released, error) {
	if r.patience.Recall.keeps() {
		return r.keep(ctx, next)
	}
	r.sent = time.Now()
	return r.store.Release(ctx, &r.grant.bid.claim, next)
}

// keep is send for a turn with a record. keep repeats a request without an
// answer, after the pauses of the backoff, until ctx ends (law 19).
func (r *release) keep(ctx context.Context, next *locker.Claim) (locker.Released, error) {
	joins := r.gate.joined()
	answer, err := r.keepOnce(ctx, next)
	for n := 0; errors.Is(err, locker.ErrUnavailable) && r.pauses(ctx, n); n++ {
		r.grant.bid.unclear = true
		r.cancel() // nobody knows whether it is in the queue
		answer, err = r.keepOnce(ctx, nil)
	}
	if err == nil {
		recall := r.patience.Recall
		recall.recorded = true
		r.gate.recorded(recall.keep.Value, joins, nil)
	}
	return answer, err
}

// keepOnce makes one request that keeps the record. keepOnce leaves time for
// others.
func (r *release) keepOnce(ctx context.Context, next *locker.Claim) (locker.Released, error) {
	store, ok := r.store.(locker.Recorder)
	if !ok {
		panic("turns: a record for a locker that keeps none")
	}
	r.sent = time.Now()
	ctx = r.bounded(ctx, limits.Release(r.set.TTL)/3)
	return store.Keep(ctx, &r.grant.bid.claim, next, r.patience.Recall.keep)
}

// cancel takes back the bid of a release without an answer.
func (r *release) cancel() {
	r.update(func(c *contender, _ time.Time) *bid { return c.cancelQueuing(r.next) })
	r.next = nil
}

// note notes the answer. note returns the error of [Turn.ReleaseKey].
func (r *release) note(answer locker.Released, err error) error {
	r.done = true
	gr, gt := r.grant, r.gate
	if errors.Is(err, locker.ErrLeaseLost) {
		err = gr.taken(err)
	} else {
		_, err = usable(err)
	}
	if err == nil || errors.Is(err, locker.ErrLeaseLost) {
		r.outages.answered(gt.name)
		gt.released(answer, r.next, r.sent, r.set.Backoff)
	} else {
		r.cancel()
		gr.bid.unclear = true
	}
	if gr.bid.unclear {
		r.store.Abandon(&gr.bid.claim, true)
	}
	return err
}

// settle notes that there is no answer, after a panic or Goexit of an observer
// or the locker.
func (r *release) settle() {
	if !r.done {
		_ = r.note(locker.Released{}, locker.ErrUnavailable)
	}
}

// releaseTogether is releaseKey for several turns, with one request. The result
// has the error of each.
func releaseTogether(ctx context.Context, several locker.Several, ts []*Turn, errs []error) {
	rs := make([]release, len(ts))
	var at []int // the turns that release, by their places in ts
	for i, t := range ts {
		may, err := t.mayRelease(ctx)
		rs[i] = release{Turn: t, done: !may}
		if errs[i] = err; may {
			at = append(at, i)
		}
	}
	defer func() {
		for i := range rs {
			rs[i].settle()
			rs[i].passFloor()
		}
	}()
	if len(at) == 0 {
		return
	}
	cs, nexts := make([]*locker.Claim, len(at)), make([]*locker.Claim, len(at))
	for n, i := range at {
		cs[n], nexts[n] = &rs[i].grant.bid.claim, rs[i].queue()
	}
	sent := time.Now()
	several.ReleaseAll(ctx, cs, nexts, func(n int, answer locker.Released, err error) {
		rs[at[n]].answer, rs[at[n]].failed = answer, err
	})
	for _, i := range at {
		rs[i].sent = sent
		errs[i] = rs[i].note(rs[i].answer, rs[i].failed)
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
	if several, ok := e.store.(locker.Several); ok && len(ts) > 1 && !ts[0].grant.bid.terms.crowded() {
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
				errs[i] = releaseKey(ctx, ts[i])
			}
		})
	}
	wg.Wait()
	return errs
}
