package guard

import (
	"context"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockorder"
	"github.com/go-lockguard/guard/locker"
)

const (
	renewBatches = 4                    // of one class in flight at once, not counting those that hang
	renewHangs   = time.Second          // after which a batch does not delay others any more
	renewGather  = 5 * time.Millisecond // from the first renewal that is due until its batch is sent, so that it is one
)

// A renewer sends the renewals that are due in batches. A batch has the limit of its shortest lease, so leases travel with
// their like: a class is those whose limits are within a factor of two. It has no goroutine of its own: the first renewal
// of a class that is due sets a timer, whose goroutine sends what has come together by then and ends.
type renewer struct {
	family *family

	mu      lockorder.Renewer // guards classes and what is in them; never held across I/O
	classes map[int]*renewals
}

// renewals are those of one class.
type renewals struct {
	due       []renewal
	gathering bool // the timer is set
	inFlight  int
}

// renewal is a grant that is due, and what bounds its try.
type renewal struct {
	grant *grant
	limit time.Duration
}

// add queues gr for renewal. gr.renewed will be called, once, unless gr is forgotten.
func (r *renewer) add(gr *grant, limit time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := bits.Len64(uint64(limit.Milliseconds()))
	class := r.classes[n]
	if class == nil {
		if r.classes == nil {
			r.classes = make(map[int]*renewals)
		}
		class = &renewals{}
		r.classes[n] = class
	}
	class.due = append(class.due, renewal{gr, limit})
	r.gather(class)
}

// gather sees to it that what is due in class is sent soon; r.mu is held.
func (r *renewer) gather(class *renewals) {
	if len(class.due) > 0 && !class.gathering && class.inFlight < renewBatches {
		class.gathering = true
		r.family.errands.begin() // Close waits for it
		time.AfterFunc(renewGather, func() {
			defer r.family.errands.end()
			r.send(class)
		})
	}
}

func (r *renewer) send(class *renewals) {
	r.mu.Lock()
	batch := class.due
	class.due, class.gathering = nil, false
	if len(batch) == 0 { // forgotten meanwhile
		r.mu.Unlock()
		return
	}
	class.inFlight++
	r.mu.Unlock()

	done := sync.OnceFunc(func() { r.done(class) })
	hangs := time.AfterFunc(renewHangs, done)
	results := r.renew(batch)
	hangs.Stop()
	done() // before the observers, who may be slow
	for i, d := range batch {
		d.grant.observeRenewal(results[i])
	}
}

// done makes room for another batch.
func (r *renewer) done(class *renewals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	class.inFlight--
	r.gather(class)
}

// forget takes gr out of what is due, and reports false if its renewal has been sent.
func (r *renewer) forget(gr *grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, class := range r.classes {
		if i := slices.IndexFunc(class.due, func(d renewal) bool { return d.grant == gr }); i >= 0 {
			class.due = slices.Delete(class.due, i, i+1)
			return true
		}
	}
	return false
}

// renew sends one batch, hands out each answer when it comes, and returns how each renewal went.
func (r *renewer) renew(batch []renewal) []RenewResult {
	claims := make([]*locker.Claim, len(batch))
	limit := batch[0].limit
	for i, d := range batch {
		claims[i] = d.grant.claim
		limit = min(limit, d.limit)
	}
	results := make([]RenewResult, len(batch))
	ctx, cancel := context.WithTimeout(context.Background(), limit) //nolint:forbidigo // a lease outlives its caller's context
	defer cancel()
	sent := time.Now()
	r.family.locker.Renew(ctx, claims, func(i int, err error) {
		results[i] = batch[i].grant.renewed(sent, err)
	})
	return results
}
