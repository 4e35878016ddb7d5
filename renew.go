package guard

import (
	"context"
	"sync"
	"time"
)

// renewWorkers bounds the renewer's goroutines: more than one, so that a batch that hangs does not delay the next.
const renewWorkers = 4

// A renewer sends the renewals that are due in batches. Its goroutines start with the first that is due and end when
// none is left; there are at most renewWorkers of them.
type renewer struct {
	family *family

	mu      sync.Mutex // guards what follows; never held across I/O
	due     []*grant
	workers int
}

// add queues gr for renewal. gr.renewed will be called, once, unless the process ends.
func (r *renewer) add(gr *grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = append(r.due, gr)
	if r.workers < renewWorkers {
		r.workers++
		go r.run() // ends when nothing is due
	}
}

func (r *renewer) run() {
	for {
		batch := r.take()
		if batch == nil {
			return
		}
		r.renew(batch)
	}
}

// take returns all that is due, or nil after noting that the worker ends.
func (r *renewer) take() []*grant {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := r.due
	r.due = nil
	if batch == nil {
		r.workers--
	}
	return batch
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
