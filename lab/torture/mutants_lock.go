package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker"
)

// wrapped is a locker whose leases are changed.
type wrapped struct {
	libs.Locker
	lease func(libs.Lease) libs.Lease
}

func (w wrapped) Acquire(ctx context.Context, key string, wait time.Duration) (libs.Lease, error) {
	l, err := w.Locker.Acquire(ctx, key, wait)
	if err != nil {
		return nil, err
	}
	return w.lease(l), nil
}

// noLock lets every caller in.
type noLock struct{ libs.Locker }

func newNoLock(l libs.Locker, _ time.Duration) libs.Locker { return noLock{l} }

func (noLock) Acquire(context.Context, string, time.Duration) (libs.Lease, error) {
	return noLease{time.Now().Add(time.Minute)}, nil
}

type noLease struct{ deadline time.Time }

func (noLease) Lost() <-chan struct{}                 { return nil }
func (noLease) Held() bool                            { return true }
func (l noLease) Deadline() time.Time                 { return l.deadline }
func (noLease) Token(context.Context) (uint64, error) { return 0, libs.ErrNoToken }
func (noLease) Release(context.Context) error         { return nil }

// receipt trusts a lease for its TTL from the time at which it receives the
// answer.
type receipt struct {
	libs.Lease
	ttl time.Duration

	mu    sync.Mutex // guards the fields below
	saw   time.Time
	until time.Time
}

func newReceipt(l libs.Locker, ttl time.Duration) libs.Locker {
	return wrapped{l, func(l libs.Lease) libs.Lease { return &receipt{Lease: l, ttl: ttl} }}
}

func (r *receipt) Lost() <-chan struct{} { return nil }
func (r *receipt) Held() bool            { return time.Until(r.Deadline()) > 0 }

func (r *receipt) Deadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.Lease.Deadline(); !d.Equal(r.saw) {
		r.saw, r.until = d, time.Now().Add(r.ttl)
	}
	return r.until
}

// untold does not tell the holder that its lease has ended.
type untold struct{ libs.Lease }

func newUntold(l libs.Locker, _ time.Duration) libs.Locker {
	return wrapped{l, func(l libs.Lease) libs.Lease { return untold{l} }}
}

func (untold) Lost() <-chan struct{} { return nil }
func (untold) Held() bool            { return true }

// afterLoss hands a lost lease on as if it was held.
type afterLoss struct {
	libs.Locker

	mu   sync.Mutex // guards lost
	lost map[string]libs.Lease
}

func newAfterLoss(l libs.Locker, _ time.Duration) libs.Locker {
	return &afterLoss{Locker: l, lost: map[string]libs.Lease{}}
}

func (a *afterLoss) Acquire(ctx context.Context, key string, wait time.Duration) (libs.Lease, error) {
	a.mu.Lock()
	old := a.lost[key]
	delete(a.lost, key)
	a.mu.Unlock()
	if old != nil {
		return old, nil
	}
	l, err := a.Locker.Acquire(ctx, key, wait)
	if err != nil {
		return nil, err
	}
	token, err := l.Token(ctx)
	return &handedOn{Lease: l, from: a, key: key, token: token}, err
}

type handedOn struct {
	libs.Lease
	from  *afterLoss
	key   string
	token uint64
	again bool
}

func (h *handedOn) Token(context.Context) (uint64, error) { return h.token, nil }
func (h *handedOn) Held() bool                            { return h.again || h.Lease.Held() }

func (h *handedOn) Lost() <-chan struct{} {
	if h.again {
		return nil
	}
	return h.Lease.Lost()
}

func (h *handedOn) Release(ctx context.Context) error {
	if h.again || h.Lease.Held() {
		return h.Lease.Release(ctx)
	}
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	h.from.lost[h.key] = &handedOn{Lease: h.Lease, from: h.from, key: h.key, token: h.token + 1, again: true}
	return nil
}

// overstay goes on waiting when the time is over.
type overstay struct{ libs.Locker }

func newOverstay(l libs.Locker, _ time.Duration) libs.Locker { return overstay{l} }

func (o overstay) Acquire(ctx context.Context, key string, wait time.Duration) (libs.Lease, error) {
	l, err := o.Locker.Acquire(ctx, key, wait)
	if err != nil {
		time.Sleep(2 * time.Second)
	}
	return l, err
}

// leak leaves a goroutine behind, now and then.
type leak struct{ libs.Locker }

func newLeak(l libs.Locker, _ time.Duration) libs.Locker { return leak{l} }

func (l leak) Acquire(ctx context.Context, key string, wait time.Duration) (libs.Lease, error) {
	if rand.IntN(10) == 0 {
		go func() { select {} }()
	}
	return l.Locker.Acquire(ctx, key, wait)
}

// oneMore asks for one permit more than the caller says.
type oneMore struct {
	libs.Locker
	libs.Moded
}

func newOneMore(l libs.Locker, _ time.Duration) libs.Locker { return oneMore{l, l.(libs.Moded)} }

func (o oneMore) AcquireLimited(
	ctx context.Context, key string, wait time.Duration, limit int,
) (libs.Lease, error) {
	return o.Moded.AcquireLimited(ctx, key, wait, min(limit+1, locker.NoLimit))
}
