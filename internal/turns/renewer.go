package turns

import (
	"container/heap"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockorder"
	"github.com/go-lockguard/guard/locker"
)

const (
	// renewBatch is the max number of leases in a batch. Its answers come soon
	// even from a slow server.
	renewBatch = 128
	// renewBatches is the max number of batches of one class in flight at once.
	// Batches that hang do not count.
	renewBatches = 4
	// renewHangs is the time after which a batch does not delay others any
	// more.
	renewHangs = 250 * time.Millisecond
	// renewGather is how long renewals gather after the first one is due, so
	// that one batch has them.
	renewGather = 5 * time.Millisecond
)

// A renewer sends the renewals that are due in batches, the most urgent first.
// A batch has a limit of its own, so a late batch costs only its own leases a
// try. If more is due than can be sent, renewals come later, which makes them
// fewer. Leases are lost only if they would all be lost otherwise, and no more
// of them than that.
//
// Leases of similar length travel together. A class holds the lengths within a
// factor of two. The renewer has no goroutine of its own. The first renewal of
// a class that is due sets a timer, whose goroutine sends a batch and ends.
type renewer struct {
	*common

	// mu guards classes, their content, and each grant's renewal. No method
	// holds mu across I/O.
	mu      lockorder.Renewer
	classes [64]renewals // by the bits of the limit of a try in ms
}

// add queues gr for renewal. A try has the given limit, and an answer is likely
// to take so long. gr is trusted until end. gr.renewed will be called once,
// unless gr is forgotten.
func (r *renewer) add(gr *grant, limit, likely time.Duration, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := &r.classes[bits.Len64(uint64(limit.Milliseconds()))]
	gr.renewal = renewal{grant: gr, class: class, end: end, longest: limit, likely: likely}
	heap.Push(class, &gr.renewal)
	r.gather(class)
}

// gather lets what is due in class be sent soon, and at once if it fills a
// batch. r.mu is held.
func (r *renewer) gather(class *renewals) {
	if len(class.due) == 0 || class.gathering || class.inFlight >= renewBatches {
		return
	}
	class.gathering = true
	pause := renewGather
	if len(class.due) >= renewBatch {
		pause = 0
	}
	r.background.begin() // Close waits for it
	time.AfterFunc(limits.Apart(pause), func() {
		defer r.background.end()
		r.send(class)
	})
}

// errTooLate is the answer to a renewal that was not sent, in favour of the
// renewals behind it.
var errTooLate = fmt.Errorf("%w: more leases are due than can be renewed in time", locker.ErrUnavailable)

// send sends one batch, and answers the renewals that are too late for it.
func (r *renewer) send(class *renewals) {
	late, batch, limit := r.take(class)
	if len(batch) > 0 {
		done := sync.OnceFunc(func() { r.done(class) })
		hangs := time.AfterFunc(limits.Apart(renewHangs), done)
		results := r.renew(batch, limit)
		hangs.Stop()
		done() // before the observers, which may be slow
		for i, gr := range batch {
			gr.tellRenewal(results[i])
		}
		r.look(batch, limit)
	}
	now := time.Now()
	for _, gr := range late { // they end by their deadlines, however late this is told
		gr.tellRenewal(gr.renewed(now, errTooLate))
	}
}

// look looks who waits for the keys of those of batch that listen, because
// messages get lost, and nobody tells an owner of those who waited before. look
// blocks until the answers, or for limit.
func (r *renewer) look(batch []*grant, limit time.Duration) {
	batch = slices.DeleteFunc(batch, func(gr *grant) bool { return !r.can.Inspects || !gr.listens() })
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.Apart(limit)) //nolint:forbidigo // a batch belongs to no caller
	defer cancel()
	for _, gr := range batch {
		if s, err := r.store.Inspect(ctx, gr.bid.claim.Key); err == nil && s.Waiting > 0 {
			gr.gate.want()
		}
	}
}

// take takes the next batch of class, with the limit of its most urgent lease.
// If more leases wait than fit into the batch, those that have no time left for
// a try are late. There is no batch if all renewals were forgotten meanwhile.
func (r *renewer) take(class *renewals) (late, batch []*grant, limit time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	class.gathering = false
	now := time.Now()
	for len(class.due) > renewBatch && class.due[0].tooLate(now) {
		late = append(late, class.first())
	}
	batch = make([]*grant, 0, min(len(class.due), renewBatch))
	for len(class.due) > 0 && len(batch) < renewBatch {
		own := class.due[0].limit(now)
		if len(batch) == 0 {
			limit = own
		}
		if own > 2*limit {
			break // it goes with its like, because this limit would be too short
		}
		batch = append(batch, class.first())
	}
	if len(batch) > 0 {
		class.inFlight++
	}
	r.gather(class)
	return late, batch, limit
}

// done makes room for another batch.
func (r *renewer) done(class *renewals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	class.inFlight--
	r.gather(class)
}

// forget takes gr out of what is due. forget returns false if its renewal was
// sent.
func (r *renewer) forget(gr *grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return gr.renewal.dequeue()
}

// renew sends one batch, hands out each answer when it comes, and returns how
// each renewal went.
func (r *renewer) renew(batch []*grant, limit time.Duration) []Renewal {
	claims := make([]*locker.Claim, len(batch))
	for i, gr := range batch {
		claims[i] = &gr.bid.claim
	}
	results := make([]Renewal, len(batch))
	ctx, cancel := context.WithTimeout(context.Background(), limits.Apart(limit)) //nolint:forbidigo // a lease outlives its caller
	defer cancel()
	sent := time.Now()
	r.store.Renew(ctx, claims, func(i int, err error) {
		results[i] = batch[i].renewed(sent, err)
	})
	return results
}

// renewals are the renewals of one class. The renewer's mutex guards them.
type renewals struct {
	due       []*renewal // a heap by the end of trust, see [heap.Interface]
	gathering bool       // the timer is set
	inFlight  int
}

// first takes out the most urgent one.
func (c *renewals) first() *grant {
	next := c.due[0]
	next.dequeue()
	return next.grant
}

func (c *renewals) Len() int { return len(c.due) }

func (c *renewals) Less(i, k int) bool { return c.due[i].end.Before(c.due[k].end) }

func (c *renewals) Swap(i, k int) {
	c.due[i], c.due[k] = c.due[k], c.due[i]
	c.due[i].place, c.due[k].place = i, k
}

func (c *renewals) Push(x any) {
	d := x.(*renewal) //nolint:forcetypeassert // only add pushes
	d.place = len(c.due)
	c.due = append(c.due, d)
}

func (c *renewals) Pop() any {
	last := len(c.due) - 1
	d := c.due[last]
	c.due[last] = nil
	c.due = c.due[:last]
	return d
}

// renewal is a grant's place among the renewals that are due, with the bounds
// of its try. The renewal is a part of the grant, so that a renewal allocates
// nothing. The renewer's mutex guards it.
//
// Invariant: class is set exactly while the renewal waits in class.due, at
// place.
type renewal struct {
	grant   *grant
	class   *renewals     // where it waits to be sent; nil: it does not
	place   int           // in class.due
	end     time.Time     // of the trust in the grant
	longest time.Duration // a try of it
	likely  time.Duration // for an answer to come; 0: not known
}

// limit bounds a try that is sent now, so that there is time for another. If
// that is not likely to be answered, the try has what is left.
func (d *renewal) limit(now time.Time) time.Duration {
	left := d.end.Sub(now)
	limit := left * 2 / 3
	if left-limit < d.likely {
		limit = left
	}
	return max(min(d.longest, limit), time.Millisecond)
}

// tooLate reports whether less is left than a try may take. If more is due than
// the store can do, such tries would all end unanswered. The tries behind them
// would come too late as well.
func (d *renewal) tooLate(now time.Time) bool { return d.end.Sub(now) < d.longest }

// dequeue takes d out of its class. dequeue returns false if d was not there.
func (d *renewal) dequeue() bool {
	if d.class == nil {
		return false
	}
	heap.Remove(d.class, d.place)
	d.class = nil
	return true
}
