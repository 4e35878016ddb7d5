package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/lab/bench/internal/host"
)

// job is the task of one process of a measurement. All processes of a
// measurement begin at the same instant.
type job struct {
	Kind    string // one of kinds
	Library string
	Program string // an earlier build that does it; "" means this one
	Addr    string // of Redis
	Arena   string // file

	Proc     int // number of this process
	Callers  int
	Keys     int           // number of each caller's own keys; 0 means that all share one
	Shared   sharing       // of keys between two processes, in place of Keys
	Rate     float64       // requests a second, of the open loop
	Duration time.Duration // of the measurement
	MaxWait  time.Duration
	Crowd    bool
	Scaled   scaled
	Moded    moded
	Dies     bool // it is killed, and has no result
	MaxHold  time.Duration
}

// result is the result of a process.
type result struct {
	Sections int64 // number of sections that ran under the lock
	InTime   int64 // the sections that ended before the measurement
	Requests int64
	Commands int64 // that the lock's connections sent during the measurement
	Cost     cost

	// waits of callers that got the key; in a closed loop also of callers that
	// waited at its end
	Waits    []time.Duration
	Calls    []time.Duration // whole calls with keys of their own
	Refusals []time.Duration // durations of refused calls
	Lags     []time.Duration // delays of the open loop's requests
	Trips    []time.Duration // round trips of a PING in the same run

	Failed  int64              // calls that failed for another reason than a held key
	Failure string             // the first such reason
	Values  map[string]float64 // of workloads with their own measures
}

func (r *result) merge(o result) {
	r.Sections += o.Sections
	r.InTime += o.InTime
	r.Requests += o.Requests
	r.Waits = append(r.Waits, o.Waits...)
	r.Calls = append(r.Calls, o.Calls...)
	r.Refusals = append(r.Refusals, o.Refusals...)
	r.Failed += o.Failed
	if r.Failure == "" {
		r.Failure = o.Failure
	}
}

// kinds are the kinds of jobs. ready runs before the start and may return more
// work. run is the measurement.
var kinds = map[string]func(*worker) measurement{
	"closed":   func(w *worker) measurement { return w.closedLoop },
	"open":     func(w *worker) measurement { return w.openLoop },
	"takeover": func(w *worker) measurement { return w.takeOver },
	"holder":   func(w *worker) measurement { return w.holdOne() },
	"waiters":  func(w *worker) measurement { return w.waitInCrowd },
	"leases":   func(w *worker) measurement { return w.holdMany() },
	"scale":    func(w *worker) measurement { return w.scaled() },
	"modes":    func(w *worker) measurement { return w.modedLoop() },
	"trips":    func(w *worker) measurement { return w.cartTrips() },
	"busy":     func(w *worker) measurement { return w.stayBusy },
	"keeps":    func(w *worker) measurement { return w.keepMany() },
	"wants":    func(w *worker) measurement { return w.wantMany() },
	"cuts":     func(w *worker) measurement { return w.passAll() },
	"outage":   func(w *worker) measurement { return w.outageLoop },
}

// renewing has the kinds that hold leases for longer than a TTL.
var renewing = map[string]bool{"holder": true, "leases": true}

// measurement runs from start on.
type measurement func(ctx context.Context, start time.Time) (result, error)

// worker is the state of a process that does its job.
type worker struct {
	job

	arena *arena
	lock  locker
	wire  *wire
	rdb   *redis.Client // a plain client, for the sections

	broken atomic.Pointer[error] // the first section that failed
}

const (
	hotKey  = "bench:hot" // of the lock
	stock   = "bench:stock"
	started = 100 * time.Millisecond // from the message to the processes until their start
)

// newWorker opens everything that the job needs and warms it up. It makes
// connections and loads scripts.
func newWorker(ctx context.Context, j job) (w *worker, closeAll func(), err error) {
	w = &worker{job: j, wire: new(wire)}
	a, unmap, err := host.Share[arena](j.Arena)
	if err != nil {
		return nil, nil, err
	}
	w.arena = a
	w.rdb = redis.NewClient(&redis.Options{Addr: j.Addr})
	lib, err := findLibrary(j.Library)
	if j.Library == serial {
		lib, err = library{open: func(setup) (locker, error) { return unlocked{}, nil }}, nil
	}
	if err == nil {
		w.lock, err = lib.open(setup{
			addr: j.Addr, wire: w.wire, maxWait: j.MaxWait, crowd: j.Crowd, maxHold: j.MaxHold,
			renews: renewing[j.Kind],
		})
	}
	if err != nil {
		return nil, nil, errors.Join(err, w.rdb.Close(), unmap())
	}
	closeAll = func() {
		w.lock.Close()
		_ = w.rdb.Close()
		_ = unmap()
	}
	if err := w.warmUp(ctx); err != nil {
		closeAll()
		return nil, nil, fmt.Errorf("warm-up: %w", err)
	}
	return w, closeAll, nil
}

// warmUp uses its own keys. There are as many callers as connections, and each
// calls several times.
func (w *worker) warmUp(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, min(max(w.Callers, 4), 64))
	for i := range errs {
		wg.Go(func() {
			key := fmt.Sprintf("bench:warm:%d:%d", w.Proc, i)
			for range 20 {
				errs[i] = errors.Join(errs[i], w.free(ctx, func(ctx context.Context) error {
					return w.lock.Do(ctx, key, func() {})
				}), w.rdb.Ping(ctx).Err())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// free calls f, which wants a key without a holder. A few tries are allowed
// because of rueidislock. If an answer took longer than its TryNextAfter, it
// waits for a change that never comes, even if the key is free.
func (w *worker) free(ctx context.Context, f func(ctx context.Context) error) (err error) {
	for range 5 {
		tryCtx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(2*time.Second, cancel)
		err = f(tryCtx)
		timer.Stop()
		if err == nil {
			return nil // tryCtx stays open, because a lease may live in it
		}
		cancel()
	}
	return err
}

// hold is Hold for a key without a holder.
func (w *worker) hold(key string) (held lease, err error) {
	err = w.free(context.Background(), func(ctx context.Context) error {
		held, err = w.lock.Hold(ctx, key)
		return err
	})
	return held, err
}

// sell is the section of the hot-key workloads, like that of a flash sale. It
// is a GET and a SET that lose an update if another section runs in between.
func (w *worker) sell(ctx context.Context) {
	w.arena.enter(0)
	defer w.arena.leave(0)
	w.update(ctx)
}

func (w *worker) update(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	n, err := w.rdb.Get(ctx, stock).Int64()
	if err == nil || errors.Is(err, redis.Nil) {
		err = w.rdb.Set(ctx, stock, n+1, 0).Err()
	}
	if err != nil {
		w.broken.CompareAndSwap(nil, &err)
	}
}

// touch is the section of the spread workloads. It has no I/O, so that only the
// lock is measured.
func (w *worker) touch(key int) {
	w.arena.enter(key)
	count := &w.arena.slots[key].count
	count.Store(count.Load() + 1)
	w.arena.leave(key)
}

// sectionError returns the error of the first section that failed. Such an
// error makes the measurement worthless.
func (w *worker) sectionError() error {
	if err := w.broken.Load(); err != nil {
		return fmt.Errorf("in a section: %w", *err)
	}
	return nil
}

// unlocked is the locker of serial. It does not lock at all, which no library
// may do.
type unlocked struct{}

func (unlocked) Do(_ context.Context, _ string, fn func()) error { fn(); return nil }
func (unlocked) Hold(context.Context, string) (lease, error)     { return noLease{}, nil }
func (unlocked) Close()                                          {}

type noLease struct{}

func (noLease) Lost() bool { return false }
func (noLease) Release()   {}
