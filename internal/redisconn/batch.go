package redisconn

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

const (
	directRequests = 4                      // in flight at once; further requests travel in batches
	batchWorkers   = 2                      // batches in flight at once
	batchCommands  = 512                    // in one batch, or little more
	nearCommands   = 128                    // the same to a near server, see take
	batchLimit     = 500 * time.Millisecond // for one batch; no try has longer
)

// batcher sends the requests of many callers as one pipeline. Its goroutines
// start with the first request and end when the queue is empty. There are at
// most batchWorkers of them.
type batcher struct {
	inFlight atomic.Int64                     // requests, in a batch or not
	exec     func(context.Context, []Command) // sends a pipeline; each command then holds its answer or error
	near     func() bool                      // see take

	ctx    context.Context // of all batches; ended by close
	cancel context.CancelFunc

	pool sync.Pool // of answered requests; not shared, because those of a testing/synctest bubble must stay in it

	mu      sync.Mutex // guards the fields below; never held across I/O
	queue   []*request
	workers int
	running sync.WaitGroup // the workers; none begins once close is called
}

// request is one caller's part of a batch. The batch owns what its commands
// point to until it has answered.
type request struct {
	cmds     []Command     // a copy of the caller's
	answered chan struct{} // told once, by the batch; buffered
	last     time.Time     // too late to send it after this; zero: never

	// The batcher's mutex guards the fields below.
	left  bool // its caller has gone: do not send it
	taken bool // it is sent, or was
}

// ErrUnsent says that a request was dropped from the queue. The server cannot
// have seen it.
var ErrUnsent = fmt.Errorf("too many requests wait: %w", context.DeadlineExceeded)

func newBatcher(exec func(context.Context, []Command), near func() bool) *batcher {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // batches belong to no one caller
	return &batcher{exec: exec, near: near, ctx: ctx, cancel: cancel}
}

// send queues cmds and waits for their answers. If ctx ends first, it returns
// ctx's error. The commands may still be sent then, and must not be looked at.
//
// A request that has spent half of its time in the queue is dropped with
// ErrUnsent, because the answer would come too late for most of those that wait
// as long. They would be sent in vain, and repeated.
func (b *batcher) send(ctx context.Context, cmds []Command) error {
	r, ok := b.pool.Get().(*request)
	if !ok {
		r = &request{answered: make(chan struct{}, 1)}
	}
	r.cmds, r.last, r.taken = append(r.cmds, cmds...), time.Time{}, false
	if end, ok := ctx.Deadline(); ok {
		now := time.Now()
		r.last = now.Add(end.Sub(now) / 2)
	}
	b.add(r)
	select {
	case <-r.answered:
		sent := r.taken // the batch is done with it
		clear(r.cmds)
		r.cmds = r.cmds[:0]
		b.pool.Put(r)
		if !sent {
			return ErrUnsent
		}
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		r.left = true // never used again: the batch may be about to answer
		if !r.taken {
			return ErrUnsent
		}
		return context.Cause(ctx)
	}
}

func (b *batcher) add(r *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, r)
	if b.workers < batchWorkers {
		b.workers++
		b.running.Go(b.sendBatches) // ends when the queue is empty
	}
}

func (b *batcher) sendBatches() {
	var batch []*request
	var cmds []Command
	for {
		runtime.Gosched() // lets callers that are about to send join
		if batch = b.take(batch[:0]); len(batch) == 0 {
			return
		}
		cmds = cmds[:0]
		for _, r := range batch {
			cmds = append(cmds, r.cmds...)
		}
		ctx, cancel := context.WithTimeout(b.ctx, limits.Apart(batchLimit))
		b.exec(ctx, cmds)
		cancel()
		for _, r := range batch {
			r.answered <- struct{}{} // buffered, and sent once: never blocks
		}
		clear(batch)
	}
}

// take appends the requests of the next batch to batch. If there are none, the
// worker ends.
//
// To a near server it leaves the rest of a long queue to the other worker. The
// server then answers one batch while the next is made. To a server that is far
// away, such batches would only spend more time under way.
func (b *batcher) take(batch []*request) []*request {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit := batchCommands
	if b.near() {
		limit = nearCommands
	}
	n, cmds, now := 0, 0, time.Now()
	for ; n < len(b.queue) && cmds < limit; n++ {
		switch r := b.queue[n]; {
		case r.left:
		case !r.last.IsZero() && now.After(r.last):
			r.answered <- struct{}{} // buffered, and sent once: never blocks
		default:
			r.taken = true
			batch = append(batch, r)
			cmds += len(r.cmds)
		}
	}
	b.queue = slices.Delete(b.queue, 0, n)
	if len(batch) == 0 {
		b.workers--
	}
	return batch
}

// close ends the batches under way and waits for the workers. Nobody may send
// any more.
func (b *batcher) close() {
	b.cancel()
	b.running.Wait()
}
