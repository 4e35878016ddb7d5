package guard

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	renewBatches = 4                    // in flight at once, not counting those that hang
	renewHangs   = time.Second          // after which a batch does not delay others any more
	renewGather  = 5 * time.Millisecond // from the first renewal that is due until its batch is sent, so that it is one
)

// A renewer sends the renewals that are due in batches. It has no goroutine of its own: the first renewal that is due sets
// a timer, whose goroutine sends what has come together by then and ends. At most renewBatches are in flight.
type renewer struct {
	family *family

	mu        sync.Mutex // guards what follows; never held across I/O
	due       []*grant
	gathering bool // the timer is set
	inFlight  int
}

// add queues gr for renewal. gr.renewed will be called, once, unless gr is forgotten.
func (r *renewer) add(gr *grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = append(r.due, gr)
	r.gather()
}

// gather sees to it that what is due is sent soon; r.mu is held.
func (r *renewer) gather() {
	if len(r.due) > 0 && !r.gathering && r.inFlight < renewBatches {
		r.gathering = true
		time.AfterFunc(renewGather, r.send)
	}
}

func (r *renewer) send() {
	r.mu.Lock()
	batch := r.due
	r.due, r.gathering = nil, false
	if len(batch) == 0 { // forgotten meanwhile
		r.mu.Unlock()
		return
	}
	r.inFlight++
	r.mu.Unlock()

	done := sync.OnceFunc(r.done)
	hangs := time.AfterFunc(renewHangs, done)
	r.renew(batch)
	hangs.Stop()
	done()
}

// done makes room for another batch.
func (r *renewer) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	r.gather()
}

// forget takes gr out of what is due, and reports false if its renewal has been sent.
func (r *renewer) forget(gr *grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.due, gr)
	if i < 0 {
		return false
	}
	r.due = slices.Delete(r.due, i, i+1)
	return true
}

// renew sends one batch and hands out the answers. The whole batch ends within the shortest of its limits.
func (r *renewer) renew(batch []*grant) {
	sent := time.Now()
	limit := batch[0].renewLimit(sent)
	claims := make([]*Claim, len(batch))
	for i, gr := range batch {
		claims[i] = gr.claim
		limit = min(limit, gr.renewLimit(sent))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit) //nolint:forbidigo // a lease outlives its caller's context
	defer cancel()
	errs := r.family.locker.Renew(ctx, claims)
	for i, gr := range batch {
		gr.observeRenewal(errs[i])
		gr.renewed(sent, errs[i])
	}
}
