package etcdlocker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	flights  = 2               // requests in flight
	tripsMax = 60              // transactions in one request; etcd takes 128 by default
	tripMax  = 2 * time.Second // for a request whose trips have no deadline
)

// lane carries transactions about different keys. While two requests are in
// flight, the next trips gather, and travel as nested transactions of one
// request. Each compares for itself, and one write to etcd's log serves all.
type lane struct {
	locker *Locker

	mu     sync.Mutex // guards what follows; never held across I/O
	trips  []*trip    // not sent yet, in the order in which they came
	flying int        // goroutines of fly; at most flights
}

// trip is one transaction. The last four fields are guarded by the lane until
// done is closed.
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
// together with others. It returns errUnsent if ctx ends before it was sent.
// The caller is between Enter and Leave of the gate.
func (ln *lane) carry(ctx context.Context, writes []string, ifs []clientv3.Cmp, then, els []clientv3.Op) (
	*clientv3.TxnResponse, error,
) {
	t := &trip{ctx: ctx, writes: writes, ifs: ifs, then: then, els: els, done: make(chan struct{})}
	ln.add(t)
	select {
	case <-t.done:
		return t.r, t.err
	case <-ctx.Done():
	}
	if ln.remove(t) {
		return nil, errors.Join(errUnsent, ctx.Err())
	}
	select {
	case <-t.done: // both at once
		return t.r, t.err
	default:
		return nil, ctx.Err()
	}
}

func (ln *lane) add(t *trip) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.trips = append(ln.trips, t)
	if ln.flying < flights {
		ln.flying++
		ln.locker.life.Go(ln.fly)
	}
}

// remove takes t out, and reports whether it was not sent.
func (ln *lane) remove(t *trip) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if t.sent {
		return false
	}
	ln.trips = slices.DeleteFunc(ln.trips, func(other *trip) bool { return other == t })
	return true
}

// fly sends trips until there are none.
func (ln *lane) fly() {
	for {
		batch := ln.take()
		if len(batch) == 0 {
			return
		}
		ln.send(batch)
	}
}

// take takes the trips of a request. If there are none, the goroutine of the
// caller counts as ended.
func (ln *lane) take() (batch []*trip) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	written := map[string]bool{}
	ln.trips = slices.DeleteFunc(ln.trips, func(t *trip) bool {
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
		ln.flying--
	}
	return batch
}

// send sends a batch, and gives each trip its part of the answer.
func (ln *lane) send(batch []*trip) {
	if len(batch) == 1 {
		ln.sendAlone(batch[0])
		return
	}
	ctx, cancel := context.WithDeadline(ln.locker.life.Context(), latest(batch))
	defer cancel()
	ops := make([]clientv3.Op, len(batch))
	for i, t := range batch {
		ops[i] = clientv3.OpTxn(t.ifs, t.then, t.els)
	}
	r, err := ln.locker.txn(ctx, nil, ops, nil)
	if noLease(err) || errors.Is(err, rpctypes.ErrPermissionDenied) || tooMuch(err) {
		// One of them fails all, and nothing was done. Alone each gets its own
		// answer.
		var alone sync.WaitGroup
		for _, t := range batch {
			alone.Go(func() { ln.sendAlone(t) })
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

func (ln *lane) sendAlone(t *trip) {
	t.r, t.err = ln.locker.txn(t.ctx, t.ifs, t.then, t.els)
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
