package etcdlocker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

const (
	flights  = 2               // requests in flight
	tripsMax = 60              // transactions in one request; etcd takes 128 by default
	tripMax  = 2 * time.Second // for a request whose trips have no deadline
)

// batcher carries transactions about different keys. While two requests are in
// flight, the next trips gather, and travel as nested transactions of one
// request. Each compares for itself, and one write to etcd's log serves all.
type batcher struct {
	life *lockerkit.Life
	txn  func(ctx context.Context, ifs []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error)

	mu     sync.Mutex // guards what follows; never held across I/O
	trips  []*trip    // not sent yet, in the order in which they came
	flying int        // goroutines of fly; at most flights
}

// trip is one transaction. The last four fields are guarded by the batcher
// until done is closed.
type trip struct {
	ctx       context.Context
	writes    []string // no two trips of one request write the same key
	ifs       []clientv3.Cmp
	then, els []clientv3.Op

	sent bool
	done chan struct{}
	r    *clientv3.TxnResponse
	err  error
}

// carry sends a transaction that may write to the keys in writes, perhaps
// together with others. carry returns errUnsent if ctx ends before it was sent.
// The caller is between Enter and Leave of the gate.
func (b *batcher) carry(ctx context.Context, writes []string, ifs []clientv3.Cmp, then, els []clientv3.Op) (
	*clientv3.TxnResponse, error,
) {
	t := &trip{ctx: ctx, writes: writes, ifs: ifs, then: then, els: els, done: make(chan struct{})}
	b.add(t)
	select {
	case <-t.done:
		return t.r, t.err
	case <-ctx.Done():
	}
	if b.remove(t) {
		return nil, errors.Join(errUnsent, ctx.Err())
	}
	select {
	case <-t.done: // both at once
		return t.r, t.err
	default:
		return nil, ctx.Err()
	}
}

func (b *batcher) add(t *trip) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trips = append(b.trips, t)
	if b.flying < flights {
		b.flying++
		b.life.Go(b.fly)
	}
}

// remove takes t out, and reports whether it was not sent.
func (b *batcher) remove(t *trip) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.sent {
		return false
	}
	b.trips = slices.DeleteFunc(b.trips, func(other *trip) bool { return other == t })
	return true
}

// fly sends trips until there are none.
func (b *batcher) fly() {
	for {
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		b.send(batch)
	}
}

// take takes the trips of a request. If there are none, the goroutine of the
// caller counts as ended.
func (b *batcher) take() (batch []*trip) {
	b.mu.Lock()
	defer b.mu.Unlock()
	written := map[string]bool{}
	b.trips = slices.DeleteFunc(b.trips, func(t *trip) bool {
		if len(batch) == tripsMax || slices.ContainsFunc(t.writes, func(k string) bool { return written[k] }) {
			return false
		}
		for _, k := range t.writes {
			written[k] = true
		}
		t.sent = true
		batch = append(batch, t)
		return true
	})
	if len(batch) == 0 {
		b.flying--
	}
	return batch
}

// send sends a batch, and gives each trip its part of the answer.
func (b *batcher) send(batch []*trip) {
	if len(batch) == 1 {
		b.sendAlone(batch[0])
		return
	}
	ctx, cancel := context.WithDeadline(b.life.Context(), latest(batch))
	defer cancel()
	ops := make([]clientv3.Op, len(batch))
	for i, t := range batch {
		ops[i] = clientv3.OpTxn(t.ifs, t.then, t.els)
	}
	r, err := b.txn(ctx, nil, ops, nil)
	if noLease(err) || errors.Is(err, rpctypes.ErrPermissionDenied) || tooMuch(err) {
		// One of them fails all, and nothing was done. Alone each gets its own
		// answer.
		var alone sync.WaitGroup
		for _, t := range batch {
			alone.Go(func() { b.sendAlone(t) })
		}
		alone.Wait()
		return
	}
	for i, t := range batch {
		if t.err = err; err == nil {
			in := r.Responses[i].GetResponseTxn()
			t.r = &clientv3.TxnResponse{Header: r.Header, Succeeded: in.Succeeded, Responses: in.Responses}
		}
		close(t.done)
	}
}

func (b *batcher) sendAlone(t *trip) {
	t.r, t.err = b.txn(t.ctx, t.ifs, t.then, t.els)
	close(t.done)
}

// latest returns the time until which one of the trips needs an answer.
func latest(batch []*trip) time.Time {
	limit := time.Now().Add(tripMax)
	var last time.Time
	for _, t := range batch {
		d, ok := t.ctx.Deadline()
		if !ok || d.After(limit) {
			return limit
		}
		if d.After(last) {
			last = d
		}
	}
	return last
}
