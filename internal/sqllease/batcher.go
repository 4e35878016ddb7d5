package sqllease

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

const (
	batchMax = 128
	// batchBytes bounds the records of a batch, because servers bound the
	// length of a statement.
	batchBytes = 256 << 10
	backlogMax = 1024 // calls that wait for a worker before others block

	// batchLeast is the shortest limit of a batch. A batch has longer than an
	// impatient call, because others travel with that call.
	batchLeast = 100 * time.Millisecond
	// batchMost is the limit of a batch with a call that has no deadline.
	batchMost = 10 * time.Second
)

type (
	calls = lockerkit.Calls[request, reply]
	call  = lockerkit.Call[request, reply]
)

type reply struct {
	result

	err    error
	unsent bool // the table is as if the request had never been made
}

// batcher brings calls to the table, many at a time. A key belongs to one
// worker, so that the calls of a process do not conflict.
type batcher struct {
	table   *table
	seed    maphash.Seed
	workers []calls // for each worker the calls for its keys
}

func newBatcher(t *table) *batcher {
	b := &batcher{table: t, seed: maphash.MakeSeed(), workers: make([]calls, t.Workers)}
	for i := range b.workers {
		b.workers[i] = make(calls, backlogMax)
	}
	return b
}

// do blocks until the request is answered or ctx ends.
func (b *batcher) do(ctx context.Context, q request) reply {
	r, unsent, err := b.workers[maphash.String(b.seed, q.key)%uint64(len(b.workers))].Do(ctx, q)
	if err != nil {
		return reply{err: err, unsent: unsent}
	}
	return r
}

// work serves the calls of a worker until ctx ends.
func (b *batcher) work(ctx context.Context, cs calls) {
	for {
		select {
		case first := <-cs:
			b.serve(ctx, cs.Gather(first, batchMax, batchBytes, func(q *request) int { return len(q.value) }))
		case <-ctx.Done():
			return
		}
	}
}

// serve answers all calls of a batch.
func (b *batcher) serve(ctx context.Context, batch []*call) {
	if len(batch) == 0 {
		return
	}
	limit := max(batchLeast, min(batchMost, time.Until(lockerkit.Patience(batch, batchMost))))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	requests := make([]*request, len(batch))
	for i, c := range batch {
		requests[i] = &c.Request
	}
	var results []result
	unsent, err := b.table.change(ctx, requests, func(rows map[string]*row) { results = applyAll(rows, requests) })
	for i, c := range batch {
		if err != nil {
			c.Answer(reply{err: err, unsent: unsent})
		} else {
			c.Answer(reply{result: results[i]})
		}
	}
}

// applyAll applies a batch to its rows.
func applyAll(rows map[string]*row, batch []*request) []result {
	results := make([]result, len(batch))
	for i, q := range batch {
		results[i] = rows[q.key].apply(q)
	}
	return results
}

// acquireAll applies a batch to its rows, each key once.
func acquireAll(rows map[string]*row, batch []*request, prefix bool) (results []result, held int) {
	results = make([]result, len(batch))
	for held < len(batch) {
		q := batch[held]
		if r := rows[q.key]; !r.free() && !r.owned(q.owner) {
			results[held] = r.apply(q) // says who owns it
			break
		}
		held++
	}
	if held < len(batch) && !prefix {
		return results, held
	}
	for i, q := range batch[:held] {
		results[i] = rows[q.key].apply(q)
	}
	return results, held
}
