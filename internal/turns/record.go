package turns

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// ErrRecorded ends a wait because the key has a record, which the call's
// [Recall] has now.
var ErrRecorded = errors.New("turns: the key has a record")

// A Recall is what a call brings to its turn if it would rather have the key's
// record. The locker is a [locker.Recorder], and the turn has no MinHold and no
// Limit. It is for one use.
type Recall struct {
	record   string        // what was found instead of a turn; guarded by the gate's mutex
	joined   bool          // the call had to wait for it; likewise
	keep     locker.Record // what the release keeps; the goroutine's that ends the turn
	result   bool          // keep is a result; likewise
	recorded bool          // the store has confirmed it; likewise
	undone   bool          // nothing was done under the mark; likewise
}

// Found returns the record that ended the wait, and whether the call waited for
// it. It comes after a Take that returned ErrRecorded.
func (r *Recall) Found() (record string, joined bool) { return r.record, r.joined }

// Keep makes the end of the turn keep a result. It comes before End.
func (r *Recall) Keep(record locker.Record) { r.keep, r.result = record, true }

// Interrupt makes the end of the turn keep a record that there is no result. It
// comes before End. A Keep or an Unmark may follow it.
func (r *Recall) Interrupt(record locker.Record) { r.keep, r.result = record, false }

// Recorded reports whether the record was kept. It comes after ReleaseKey.
func (r *Recall) Recorded() bool { return r.recorded }

// recalls reports whether a record would end the wait of t.
func (t *Turn) recalls() bool { return t.patience.Recall != nil }

// keeps reports whether the end of t keeps a record.
func (t *Turn) keeps() bool { return t.recalls() && t.patience.Recall.keep.Value != "" }

// passesOn reports whether the grant may pass from t to another turn. That would
// keep a record from the store, or leave the mark of t there.
func (t *Turn) passesOn() bool { return !t.recalls() || !t.keeps() && !t.patience.Recall.undone }

// Keeps reports whether the end of t keeps a result.
func (t *Turn) Keeps() bool { return t.keeps() && t.patience.Recall.result }

// Recorded reports whether the release of t has recorded a result.
func (t *Turn) Recorded() bool { return t.Keeps() && t.patience.Recall.recorded }

// terms are what t asks for.
func (t *Turn) terms() terms {
	all := t.set.terms()
	all.recall = t.recalls()
	return all
}

// found reports whether a record ends the wait of t.
func (gt *gate) found(t *Turn) bool {
	if !t.recalls() {
		return false
	}
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return t.patience.Recall.record != ""
}

// foundRecord notes that a try of t, which has the floor, found a record. It
// answers those of the first joins calls that wait for one, see [gate.answer].
// It returns the bid, which is over.
func (gt *gate) foundRecord(t *Turn, record string, joins uint32) *bid {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if t.attempts == 1 && t.given == nil { // t did not wait
		t.patience.Recall.record = record
	}
	gt.answer(record, joins)
	gt.contender.spend()
	return gt.contender.withdraw()
}

// recorded notes that a release of this process has kept a record. It answers
// those of the first joins calls that wait for one, see [gate.answer].
func (gt *gate) recorded(record string, joins uint32) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.answer(record, joins)
}

// joined returns how many calls have joined the gate by now.
func (gt *gate) joined() uint32 {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.joins
}

// told records that the claim of owner has left the store's queue because of a
// record. Without the record itself, the next try finds it.
func (gt *gate) told(owner, record string) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if b := gt.contender.bid; b == nil || b.claim.Owner != owner {
		return
	}
	gt.contender.spend()
	if record != "" {
		gt.answer(record, gt.contender.bid.joins)
	}
	gt.contender.wake(time.Now())
}

// answer gives a record to the calls that wait for one: those in line, which
// leave it, and the one that contends. gt.mu is held.
//
// Only those of the first joins calls get it, which had joined before the record
// was looked for, or could be kept. A later call may have begun when the record
// was forgotten already, so it looks for itself.
func (gt *gate) answer(record string, joins uint32) {
	if f := gt.floor; f != nil && gt.grant == nil && f.grant == nil && f.among(joins) {
		f.learn(record)
	}
	for t := gt.line.first; t != nil; {
		next := t.next
		if t.among(joins) && t.learn(record) {
			gt.line.remove(t)
			t.given <- struct{}{} // buffered, and sent once: never blocks
		}
		t = next
	}
}

// among reports whether t is one of the first joins calls. The counts may wrap.
func (t *Turn) among(joins uint32) bool { return int32(joins-t.order) >= 0 }

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

// spend notes that the bid has left the store's queue for good.
func (c *contender) spend() { c.spent = true }

// keepKey is sendRelease for a turn with a record. It repeats a request without
// an answer, after the pauses of the backoff, until ctx ends (law 19).
func (t *Turn) keepKey(ctx context.Context, next *bid, claim *locker.Claim) (locker.Released, *bid, time.Time, error) {
	gt, b, joins := t.gate, t.grant.bid, t.gate.joined()
	sent := time.Now()
	released, err := t.keepOnce(ctx, claim)
	for n := 0; errors.Is(err, locker.ErrUnavailable) && t.pauses(ctx, n); n++ {
		b.unclear = true
		t.abandonBid(gt.cancelQueuing(next)) // nobody knows whether it is in the queue
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

// keepOnce makes one request that keeps t's record. It leaves time for others.
func (t *Turn) keepOnce(ctx context.Context, next *locker.Claim) (locker.Released, error) {
	e := t.gate.engine
	store, ok := e.locker.(locker.Recorder)
	if !ok {
		panic("turns: a record for a locker that keeps none")
	}
	return store.Keep(e.bounded(ctx, limits.Release(t.set.TTL)/3), &t.grant.bid.claim, next, t.patience.Recall.keep)
}

// pauses pauses after the n-th request (from 0) without an answer. It returns
// false if ctx has ended.
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

// Recorded implements [locker.Joiner].
func (w waker) Recorded(key, owner, value string) {
	if gt := w.engine.gates.find(key); gt != nil {
		gt.told(owner, value)
	}
}
