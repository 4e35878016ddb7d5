package redislocker

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	directRequests = 4                      // in flight at once; what comes on top travels in batches
	batchWorkers   = 2                      // batches in flight at once
	batchCommands  = 512                    // in one batch, or little more
	batchLimit     = 500 * time.Millisecond // for one batch: no try has longer
)

// batcher sends the requests of many callers as one pipeline. Its goroutines start with the first request and end when
// none is left; there are at most batchWorkers of them.
type batcher struct {
	exec func(context.Context, []command) // sends a pipeline; each command holds its answer or error when it returns

	ctx    context.Context // of all batches; ended by the locker's Close
	cancel context.CancelFunc

	mu      sync.Mutex // guards what follows; never held across I/O
	queue   []*request
	workers int
	idle    chan struct{} // closed when the last worker ends; nil if there is none
}

// request is one caller's part of a batch. The batch owns its commands until answered is closed.
type request struct {
	cmds     []command
	answered chan struct{}
	left     bool // its caller has gone: not to be sent any more; guarded by the batcher's mutex
}

func newBatcher(exec func(context.Context, []command)) *batcher {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // batches belong to no one caller
	return &batcher{exec: exec, ctx: ctx, cancel: cancel}
}

// send queues cmds and waits for their answers. If ctx ends first it returns ctx's error: the commands may still be sent,
// and must not be looked at.
func (b *batcher) send(ctx context.Context, cmds []command) error {
	r := &request{cmds: cmds, answered: make(chan struct{})}
	b.add(r)
	select {
	case <-r.answered:
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		r.left = true
		b.mu.Unlock()
		return context.Cause(ctx)
	}
}

func (b *batcher) add(r *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, r)
	if b.workers < batchWorkers {
		if b.workers == 0 {
			b.idle = make(chan struct{})
		}
		b.workers++
		go b.run() // ends when the queue is empty
	}
}

func (b *batcher) run() {
	var cmds []command
	for {
		batch := b.take()
		if batch == nil {
			return
		}
		cmds = cmds[:0]
		for _, r := range batch {
			cmds = append(cmds, r.cmds...)
		}
		ctx, cancel := context.WithTimeout(b.ctx, batchLimit)
		b.exec(ctx, cmds)
		cancel()
		for _, r := range batch {
			close(r.answered)
		}
	}
}

// take returns the requests of the next batch, or nil after noting that the worker ends.
func (b *batcher) take() []*request {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = slices.DeleteFunc(b.queue, func(r *request) bool { return r.left })
	if len(b.queue) == 0 {
		b.queue = nil
		if b.workers--; b.workers == 0 {
			close(b.idle)
		}
		return nil
	}
	n, cmds := 0, 0
	for n < len(b.queue) && cmds < batchCommands {
		cmds += len(b.queue[n].cmds)
		n++
	}
	batch := slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	return batch
}

// close ends the batches that are under way, and joins them.
func (b *batcher) close() {
	b.cancel()
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle != nil {
		<-idle
	}
}
