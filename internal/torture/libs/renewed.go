package libs

import (
	"context"
	"sync"
	"time"
)

// renewed is a lease of a library that neither renews it nor tells of its loss,
// with what its docs tell users to have around it: a goroutine that renews it
// at a third of its TTL. The first renewal that fails is a loss, and so is the
// end of the time that the library trusts the lock, if it says that.
type renewed struct {
	lock lock
	lost chan struct{} // closed by the goroutine, when the lease is lost
	stop context.CancelFunc
	work sync.WaitGroup // its goroutines, if any; Release ends and joins them

	mu       sync.Mutex // guards deadline
	deadline time.Time
}

// lock is what the library has for the holder of a lock.
type lock struct {
	every   time.Duration // when to renew; 0: never
	until   time.Time     // till then it is trusted; zero: the library does not say
	renew   func(ctx context.Context) (until time.Time, err error)
	release func(ctx context.Context) error
}

func newRenewed(l lock) *renewed {
	ctx, stop := context.WithCancel(context.Background()) // a lease outlives its caller's context
	r := &renewed{lock: l, lost: make(chan struct{}), stop: stop, deadline: l.until}
	failed := make(chan struct{})
	switch {
	case l.until.IsZero() && l.every == 0:
	case l.until.IsZero():
		r.work.Go(func() { r.keep(ctx, r.lost) })
	default:
		r.work.Go(func() { r.keep(ctx, failed) })
		r.work.Go(func() { r.watch(ctx, failed) })
	}
	return r
}

// keep renews until ctx ends, or a renewal fails. It closes failed for a
// failure that is not Release's doing.
func (r *renewed) keep(ctx context.Context, failed chan<- struct{}) {
	if r.lock.every == 0 {
		return
	}
	t := time.NewTicker(r.lock.every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		until, err := r.lock.renew(ctx)
		if err != nil {
			if ctx.Err() == nil {
				close(failed)
			}
			return
		}
		r.mu.Lock()
		r.deadline = until
		r.mu.Unlock()
	}
}

// watch closes lost in time, also while a renewal hangs.
func (r *renewed) watch(ctx context.Context, failed <-chan struct{}) {
	for {
		var over <-chan time.Time
		if d := r.Deadline(); !d.IsZero() {
			over = time.After(time.Until(d))
		}
		select {
		case <-ctx.Done():
			return
		case <-failed:
			close(r.lost)
			return
		case <-over:
			if time.Until(r.Deadline()) <= 0 {
				close(r.lost)
				return
			}
		}
	}
}

func (r *renewed) Lost() <-chan struct{} { return r.lost }

func (r *renewed) Held() bool {
	select {
	case <-r.lost:
		return false
	default:
		d := r.Deadline()
		return d.IsZero() || time.Until(d) > 0
	}
}

func (r *renewed) Deadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deadline
}

func (r *renewed) Token(context.Context) (uint64, error) { return 0, ErrNoToken }

func (r *renewed) Release(ctx context.Context) error {
	r.stop()
	r.work.Wait()
	return r.lock.release(ctx)
}
