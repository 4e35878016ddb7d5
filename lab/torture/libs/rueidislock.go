package libs

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Rueidislock is github.com/redis/rueidis/rueidislock as its README sets it up.
// It has one key for each lock, and the TTL as its validity. The max time of a
// try differs, because with the README's 20 ms a later answer is a failed try.
// It waits for Redis to report that the key has changed, and renews at half of
// the TTL.
var Rueidislock = &Library{
	Name: "rueidislock", Renews: true, Tells: true,
	Topologies: []Topology{Single, Sentinel, Cluster},
	Keys:       func(key string) []string { return []string{"rueidislock:0:" + key} },
	open:       openRueidislock,
}

type rueidislockLocker struct{ locks rueidislock.Locker }

func openRueidislock(s Setup) (Locker, error) {
	o := rueidis.ClientOption{
		InitAddress: s.Addrs,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return s.Dial(ctx, "tcp", addr)
		},
	}
	if s.Topology == Sentinel {
		o.Sentinel = rueidis.SentinelOption{MasterSet: s.Master}
	}
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: o, KeyMajority: 1, NoLoopTracking: true, KeyValidity: s.TTL, TryNextAfter: s.tryNextAfter(),
	})
	if err != nil {
		return nil, err
	}
	return &rueidislockLocker{locks}, nil
}

// tryNextAfter is the time of a try. 0 means the library's default of 20 ms.
func (s *Setup) tryNextAfter() time.Duration {
	switch s.Tries {
	case Documented:
		return 0
	case Fastest:
		return time.Second
	}
	return s.TTL / 4
}

// Acquire ends the wait without a deadline in rueidislock's context, because
// the lock lives in that context and would end with it.
func (l *rueidislockLocker) Acquire(ctx context.Context, key string, wait time.Duration) (Lease, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, cancel)
	try, stop := l.locks.TryWithContext, func() bool { return true }
	if wait > 0 {
		try, stop = l.locks.WithContext, time.AfterFunc(wait, cancel).Stop
	}
	held, release, err := try(own, key)
	inTime := stop()
	switch linked := unlink(); {
	case err != nil:
		cancel()
		return nil, err
	case !inTime || !linked: // the lock may be ending already
		release()
		cancel()
		return nil, context.Canceled
	}
	return &rueidislockLease{held, release, cancel}, nil
}

// Close returns when rueidis has closed, even if ctx has ended.
func (l *rueidislockLocker) Close(context.Context) error {
	l.locks.Close()
	return nil
}

type rueidislockLease struct {
	ctx     context.Context
	release context.CancelFunc
	cancel  context.CancelFunc
}

func (l *rueidislockLease) Lost() <-chan struct{}                 { return l.ctx.Done() }
func (l *rueidislockLease) Held() bool                            { return l.ctx.Err() == nil }
func (l *rueidislockLease) Deadline() time.Time                   { return time.Time{} }
func (l *rueidislockLease) Token(context.Context) (uint64, error) { return 0, ErrNoToken }

// Release always returns nil, because the library does not tell the result.
func (l *rueidislockLease) Release(context.Context) error {
	l.release()
	l.cancel()
	return nil
}
