package libs

import (
	"context"
	"sync"
	"time"
)

// renewed is a lease of a library that neither renews it nor tells of its loss.
// As the library's docs advise, a goroutine renews it at a third of its TTL.
// The first failed renewal is a loss. So is the end of the time for which the
// library trusts the lock, if the library tells that time.
type renewed struct {
	lock lock
	lost chan struct{} // closed by the goroutine, when the lease is lost
	stop context.CancelFunc
	work sync.WaitGroup // its goroutines, if any; Release ends and joins them

	mu       sync.Mutex // guards deadline
	deadline time.Time
}

// lock has the library's operations for the holder of a lock.
type lock struct {
	every   time.Duration // when to renew; 0 means never
	until   time.Time     // it is trusted until then; zero if the library does not tell
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

// keep renews until ctx ends or a renewal fails. It closes failed if a renewal
// fails for another reason than Release.
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

// watch closes lost in time, even while a renewal hangs.
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
