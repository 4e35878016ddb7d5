package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// library is one way to set up one library.
type library struct {
	name    string
	peer    string // the name without "-tuned" of the peer; "" if not a peer
	setting string // as the report states it
	open    func(setup) (locker, error)
}

// setup has the workload's demands on a library. Everything else is the
// library's own setting.
type setup struct {
	addr    string
	wire    *wire         // counts the commands on the lock's connections
	maxWait time.Duration // of every call
	linger  time.Duration // of guard
	crowd   bool          // more callers wait for one key than the library's default limit allows
	maxHold time.Duration // of a lease, if the library has such a limit; 0 means its default
	renews  bool          // leases last longer than a TTL; guard and rueidislock always renew them
}

// locker is a library that is set up.
type locker interface {
	// Do runs fn while it holds key, or returns the reason why it did not. It
	// waits for at most maxWait, or until ctx ends. The end of ctx must not end
	// fn's hold of the key.
	Do(ctx context.Context, key string, fn func()) error
	// Hold acquires key and keeps it. The lease is renewed by the library, or
	// as its docs tell users.
	Hold(ctx context.Context, key string) (lease, error)
	Close()
}

type lease interface {
	Lost() bool
	Release()
}

const (
	ours   = "guard"
	before = "guard-before" // guard of an earlier build
	linger = "guard-linger" // guard that keeps keys with their process
	serial = "serial"       // not a library but one caller without a lock
)

var libraries = []library{
	{
		name: ours, open: openGuard,
		setting: "defaults: TTL 10 s, redislocker.New(rdb); only MaxWait, and where the workload needs it MaxWaiters " +
			"and MaxHold, are set",
	},
	{name: before, setting: "the same, of the earlier build that -before names"},
	{name: linger, open: openLinger, setting: "the same, with WithLinger(1 s), where that may matter"},
	{
		name: "redislock", peer: "redislock", open: peerWith(libs.Redislock, 10*time.Second, libs.Documented),
		setting: "as its examples: LinearBackoff(100 ms), go-redis defaults; TTL 10 s",
	},
	{
		name: "redislock-tuned", peer: "redislock", open: peerWith(libs.Redislock, 10*time.Second, libs.Fastest),
		setting: "best found: a RetryStrategy of random waits, 1-20 ms (LinearBackoff of 2-20 ms and " +
			"ExponentialBackoff did less); TTL 10 s",
	},
	{
		name: "redsync", peer: "redsync", open: peerWith(libs.Redsync, 8*time.Second, libs.Documented),
		setting: "as its README: defaults (expiry 8 s, 32 tries, 50-250 ms apart), go-redis v9 driver with defaults",
	},
	{
		name: "redsync-tuned", peer: "redsync", open: peerWith(libs.Redsync, 8*time.Second, libs.Fastest),
		setting: "best found: WithFailFast, tries 5-25 ms apart for as long as the caller waits",
	},
	{
		name: "rueidislock", peer: "rueidislock", open: peerWith(libs.Rueidislock, 5*time.Second, libs.Documented),
		setting: "as its README: KeyMajority 1, NoLoopTracking (validity 5 s, TryNextAfter 20 ms)",
	},
	{
		name: "rueidislock-tuned", peer: "rueidislock", open: peerWith(libs.Rueidislock, 5*time.Second, libs.Fastest),
		setting: "the README's with TryNextAfter 1 s, so that a slow answer is no failed try; nothing found does " +
			"clearly better than the README's",
	},
}

func findLibrary(name string) (library, error) {
	var names []string
	for _, l := range libraries {
		if l.name == name {
			return l, nil
		}
		names = append(names, l.name)
	}
	return library{}, fmt.Errorf("no library %q; there are %s", name, strings.Join(names, ", "))
}

// peersOf returns the names of all settings of the given peers, or of all
// peers.
func peersOf(peers ...string) (names []string) {
	for _, l := range libraries {
		if l.peer != "" && (len(peers) == 0 || slices.Contains(peers, l.peer)) {
			names = append(names, l.name)
		}
	}
	return names
}

// newClient returns a go-redis client with its defaults. Its commands are
// counted. Larger pools did no better.
func (s *setup) newClient() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, Dialer: s.wire.dial})
}

type guardLocker struct {
	guard *guard.Guard
	rdb   *redis.Client
}

func openLinger(s setup) (locker, error) {
	s.linger = time.Second
	return openGuard(s)
}

func openGuard(s setup) (locker, error) {
	opts := []guard.Option{guard.WithMaxWait(s.maxWait), guard.WithLinger(s.linger)}
	if s.crowd {
		opts = append(opts, guard.WithMaxWaiters(0))
	}
	if s.maxHold > 0 {
		opts = append(opts, guard.WithMaxHold(s.maxHold))
	}
	rdb := s.newClient() // sends nothing; the locker's own client is made after it, with the same dialer
	g, err := guard.New(redislocker.New(rdb), opts...)
	if err != nil {
		return nil, err
	}
	return &guardLocker{g, rdb}, nil
}

func (l *guardLocker) Do(ctx context.Context, key string, fn func()) error {
	return l.guard.Do(ctx, key, func(context.Context) error { fn(); return nil })
}

func (l *guardLocker) Hold(ctx context.Context, key string) (lease, error) {
	held, err := l.guard.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return guardLease{held}, nil
}

func (l *guardLocker) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.guard.Close(ctx)
	_ = l.rdb.Close()
}

type guardLease struct{ lease *guard.Lease }

func (l guardLease) Lost() bool { return l.lease.Err() != nil }
func (l guardLease) Release()   { _ = l.lease.Release(context.Background()) }
