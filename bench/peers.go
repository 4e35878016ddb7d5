package main

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// pollLocker is a library that polls over go-redis: take tries until ctx ends.
type pollLocker struct {
	rdb     *redis.Client
	maxWait time.Duration
	take    func(ctx context.Context, key string) (polled, error)
}

// polled is a key held by redislock or redsync, neither of which renews it by itself.
type polled struct {
	every   time.Duration // a third of the TTL
	renew   func(ctx context.Context) error
	release func(ctx context.Context)
}

func (l *pollLocker) wait(ctx context.Context, key string) (polled, error) {
	ctx, cancel := context.WithTimeout(ctx, l.maxWait)
	defer cancel()
	return l.take(ctx, key)
}

func (l *pollLocker) Do(ctx context.Context, key string, fn func()) error {
	held, err := l.wait(ctx, key)
	if err != nil {
		return err
	}
	defer held.release(context.WithoutCancel(ctx))
	fn()
	return nil
}

// Hold renews as redislock's README has it: a goroutine for each lease.
func (l *pollLocker) Hold(ctx context.Context, key string) (lease, error) {
	held, err := l.wait(ctx, key)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &watchedLease{polled: held, stop: stop}
	p.watchdog.Go(func() { // ends with Release, or when the lease is lost
		t := time.NewTicker(held.every)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if held.renew(ctx) != nil && ctx.Err() == nil {
					p.lost.Store(true)
					return
				}
			}
		}
	})
	return p, nil
}

func (l *pollLocker) Close() { _ = l.rdb.Close() }

type watchedLease struct {
	polled

	stop     context.CancelFunc
	watchdog sync.WaitGroup
	lost     atomic.Bool
}

func (l *watchedLease) Lost() bool { return l.lost.Load() }

func (l *watchedLease) Release() {
	l.stop()
	l.watchdog.Wait()
	l.release(context.Background())
}

// jitter is a redislock.RetryStrategy of random waits between from and to: its own ones have all callers try in step.
type jitter struct{ from, to time.Duration }

func (j jitter) NextBackoff() time.Duration { return j.from + rand.N(j.to-j.from) }

func redislockWith(retry redislock.RetryStrategy) func(setup) (locker, error) {
	return func(s setup) (locker, error) {
		rdb := s.newClient()
		locks := redislock.New(rdb)
		return &pollLocker{rdb, s.maxWait, func(ctx context.Context, key string) (polled, error) {
			held, err := locks.Obtain(ctx, key, leaseTTL, &redislock.Options{RetryStrategy: retry})
			return polled{
				every:   leaseTTL / 3,
				renew:   func(ctx context.Context) error { return held.Refresh(ctx, leaseTTL, nil) },
				release: func(ctx context.Context) { _ = held.Release(ctx) },
			}, err
		}}, nil
	}
}

const redsyncExpiry = 8 * time.Second // its default

func openRedsync(s setup) (locker, error) { return redsyncWith(s) }

func openRedsyncTuned(s setup) (locker, error) {
	return redsyncWith(s, redsync.WithFailFast(true), redsync.WithTries(1<<30),
		redsync.WithRetryDelayFunc(func(int) time.Duration { return jitter{5 * time.Millisecond, 25 * time.Millisecond}.NextBackoff() }))
}

func redsyncWith(s setup, opts ...redsync.Option) (locker, error) {
	rdb := s.newClient()
	rs := redsync.New(goredis.NewPool(rdb))
	return &pollLocker{rdb, s.maxWait, func(ctx context.Context, key string) (polled, error) {
		mutex := rs.NewMutex(key, opts...) // one for each call: it is the lease too
		return polled{
			every:   redsyncExpiry / 3,
			renew:   func(ctx context.Context) error { _, err := mutex.ExtendContext(ctx); return err },
			release: func(ctx context.Context) { _, _ = mutex.UnlockContext(ctx) },
		}, mutex.LockContext(ctx)
	}}, nil
}

// tracked is rueidislock, which waits for Redis to say that a key has changed, and renews by itself.
type tracked struct {
	locks   rueidislock.Locker
	maxWait time.Duration
}

func openRueidislock(s setup) (locker, error)      { return rueidislockWith(s, 0) }
func openRueidislockTuned(s setup) (locker, error) { return rueidislockWith(s, time.Second) }

func rueidislockWith(s setup, tryNextAfter time.Duration) (locker, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{s.addr},
			DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				c, err := d.DialContext(ctx, "tcp", addr)
				if err != nil {
					return nil, err
				}
				return s.wire.watch(c), nil
			},
		},
		KeyMajority: 1, NoLoopTracking: true, TryNextAfter: tryNextAfter,
	})
	if err != nil {
		return nil, err
	}
	return &tracked{locks, s.maxWait}, nil
}

// Hold ends the wait with ctx or after maxWait. Neither may be a deadline of the context that rueidislock sees, nor may it
// end later: the lock lives in that context, and would end with it.
func (l *tracked) Hold(ctx context.Context, key string) (lease, error) {
	lockCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(l.maxWait, cancel)
	unlink := context.AfterFunc(ctx, cancel)
	held, release, err := l.locks.WithContext(lockCtx, key)
	inTime := timer.Stop()
	switch linked := unlink(); {
	case err != nil:
		cancel()
		return nil, err
	case !inTime || !linked: // the lock may be ending already
		release()
		cancel()
		return nil, context.Canceled
	}
	return &trackedLease{held, func() { release(); cancel() }}, nil
}

func (l *tracked) Do(ctx context.Context, key string, fn func()) error {
	held, err := l.Hold(ctx, key)
	if err != nil {
		return err
	}
	defer held.Release()
	fn()
	return nil
}

func (l *tracked) Close() { l.locks.Close() }

type trackedLease struct {
	ctx     context.Context
	release func()
}

func (l *trackedLease) Lost() bool { return l.ctx.Err() != nil }
func (l *trackedLease) Release()   { l.release() }
