package main

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/lab/torture/libs"
)

// peerLocker is a competitor.
type peerLocker struct {
	locker  libs.Locker
	maxWait time.Duration
}

func peerWith(lib *libs.Library, ttl time.Duration, tries libs.Tries) func(setup) (locker, error) {
	return func(s setup) (locker, error) {
		l, err := lib.Open(libs.Setup{
			Addrs: []string{s.addr}, Dial: s.wire.dial, TTL: ttl, Tries: tries, Unwatched: true, NoRenewal: !s.renews,
		})
		if err != nil {
			return nil, err
		}
		return &peerLocker{l, s.maxWait}, nil
	}
}

func (l *peerLocker) Do(ctx context.Context, key string, fn func()) error {
	held, err := l.Hold(ctx, key)
	if err != nil {
		return err
	}
	defer held.Release()
	fn()
	return nil
}

func (l *peerLocker) Hold(ctx context.Context, key string) (lease, error) {
	held, err := l.locker.Acquire(ctx, key, l.maxWait)
	if err != nil {
		return nil, err
	}
	return peerLease{held}, nil
}

func (l *peerLocker) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.locker.Close(ctx)
}

type peerLease struct{ lease libs.Lease }

func (l peerLease) Lost() bool { return !l.lease.Held() }
func (l peerLease) Release()   { _ = l.lease.Release(context.Background()) }
