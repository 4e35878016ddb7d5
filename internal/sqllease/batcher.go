package sqllease

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"
)

const (
	batchMax = 128
	// batchBytes bounds the records of a batch, because servers bound the
	// length of a statement.
	batchBytes = 256 << 10
	laneMax    = 1024 // calls that wait for a worker before others block

	// batchLeast is the shortest limit of a batch. It is longer than the limit
	// of an impatient call, because others travel with that call.
	batchLeast = 100 * time.Millisecond
	// batchMost is the limit of a batch with a call that has no deadline.
	batchMost = 10 * time.Second
)

// call is a request on its way.
//
// Invariant: exactly one of the caller and the worker moves state on from
// pending. If that is the caller, the worker skips the call.
type call struct {
	request

	ctx   context.Context
	state atomic.Int32
	done  chan reply // has room for the one reply
}

const (
	pending int32 = iota
	taken         // by a worker
	dropped       // by its caller
)

type reply struct {
	result

	err    error
	unsent bool // the table is as if the request had never been made
}

// lane brings the calls for some of the keys to the table, many at a time. A
// key belongs to one lane, so that the calls of a process do not conflict.
type lane struct {
	table *table
	calls chan *call
}

// lanes are all lanes of a locker.
type lanes struct {
	seed maphash.Seed
	all  []*lane
}

func newLanes(t *table) *lanes {
	ls := &lanes{seed: maphash.MakeSeed()}
	for range t.Workers {
		ls.all = append(ls.all, &lane{t, make(chan *call, laneMax)})
	}
	return ls
}

// do blocks until the request is answered or ctx ends.
func (ls *lanes) do(ctx context.Context, q request) reply {
	if err := ctx.Err(); err != nil {
		return reply{err: err, unsent: true}
	}
	c := &call{request: q, ctx: ctx, done: make(chan reply, 1)}
	l := ls.all[maphash.String(ls.seed, q.key)%uint64(len(ls.all))]
	select {
	case l.calls <- c:
	case <-ctx.Done():
		return reply{err: ctx.Err(), unsent: true}
	}
	select {
	case r := <-c.done:
		return r
	case <-ctx.Done():
		return reply{err: ctx.Err(), unsent: c.state.CompareAndSwap(pending, dropped)}
	}
}

// work serves the calls until ctx ends.
func (l *lane) work(ctx context.Context) {
	for {
		select {
		case first := <-l.calls:
			l.serve(ctx, l.gather(first))
		case <-ctx.Done():
			return
		}
	}
}

// gather takes the calls that are there.
func (l *lane) gather(first *call) (batch []*call) {
	size := 0
	for c := first; ; {
		if c.state.CompareAndSwap(pending, taken) {
			batch = append(batch, c)
		}
		size += len(c.value)
		if len(batch) == batchMax || size >= batchBytes {
			return batch
		}
		select {
		case c = <-l.calls:
		default:
			return batch
		}
	}
}

// serve answers all calls of a batch.
func (l *lane) serve(ctx context.Context, batch []*call) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limitOf(batch))
	defer cancel()
	requests := make([]*request, len(batch))
	for i, c := range batch {
		requests[i] = &c.request
	}
	var results []result
	unsent, err := l.table.change(ctx, requests, func(rows map[string]*row) { results = applyAll(rows, requests) })
	for i, c := range batch {
		if err != nil {
			c.done <- reply{err: err, unsent: unsent}
		} else {
			c.done <- reply{result: results[i]}
		}
	}
}

// limitOf returns how long the most patient call waits.
func limitOf(batch []*call) time.Duration {
	limit := batchLeast
	for _, c := range batch {
		if end, ok := c.ctx.Deadline(); ok {
			limit = max(limit, time.Until(end))
		} else {
			limit = max(limit, batchMost)
		}
	}
	return min(limit, batchMost)
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
