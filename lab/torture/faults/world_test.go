package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const (
	key  = "k"
	long = rig.Long
	slow = rig.Slow
)

func nop(context.Context) error { return nil }

// newGuard opens a guard on rdb that is closed when t ends.
func newGuard(t *testing.T, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return newGuardOn(t, redislocker.New(rdb), opts...)
}

func newGuardOn(t *testing.T, l guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.Patient(t, l, opts...)
}

// on opens a guard with a new client for addr.
func on(t *testing.T, addr string, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return newGuard(t, redistest.Client(t, addr), opts...)
}

// network has a server, a client with a direct connection, and a network to the
// server that can be made to fail.
type network struct {
	*redistest.Proxy
	server *redistest.Server
	direct *redis.Client
}

func newNetwork(t *testing.T, args ...string) *network {
	t.Helper()
	s := serve(t, args...)
	return &network{Proxy: redistest.NewProxy(t, s.Addr), server: s, direct: redistest.Client(t, s.Addr)}
}

// partition separates the clients of the proxy from the server, without a sign
// to either, or ends that.
func (n *network) partition(cut bool) {
	n.DropUp(cut)
	n.DropDown(cut)
	if !cut {
		n.CutAll() // swallowed bytes are lost, and so are the connections that miss them
	}
}

// has reports whether the server has the lock of key.
func has(t *testing.T, rdb redis.UniversalClient, key string) bool {
	t.Helper()
	n, err := rdb.Exists(t.Context(), lock(key)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// lock is the name of a key's lock in Redis.
func lock(key string) string { return "guard:{" + key + "}" }

// warm lets g connect and load its scripts. On a busy machine a call that makes
// one attempt may be over before it has a connection, or its lease. The next
// call finds the connection, once the key that the last may have left is free.
func warm(t *testing.T, g *guard.Guard) {
	t.Helper()
	testguard.Eventually(t, "the guard is connected", func() bool {
		err := g.Do(t.Context(), "warm", nop)
		busy := errors.Is(err, guard.ErrUnavailable) || errors.Is(err, guard.ErrNotAcquired) ||
			errors.Is(err, guard.ErrLeaseLost)
		if err != nil && !busy {
			t.Fatal(err)
		}
		return err == nil
	})
}

func acquire(t *testing.T, g *guard.Guard, key string) *guard.Lease {
	t.Helper()
	l, err := g.Acquire(t.Context(), key)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return l
}

// eager returns g with a MaxWait of long.
func eager(g *guard.Guard) *guard.Guard { return g.With(guard.WithMaxWait(long)) }

// mustRelease releases l. If a busy machine answers too late, the release is
// sent again by itself.
func mustRelease(t *testing.T, l *guard.Lease) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil && !errors.Is(err, guard.ErrUnavailable) {
		t.Fatalf("Release: %v", err)
	}
}

// isFree waits until the server does not have the lock of key any more.
func isFree(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	testguard.Eventually(t, key+" is free", func() bool { return !has(t, rdb, key) })
}

// token returns the token of l. Without WithFencing it asks a server, which may
// be busy.
func token(t *testing.T, l *guard.Lease) (n uint64) {
	t.Helper()
	testguard.Eventually(t, "the token is told", func() (told bool) {
		var err error
		if n, err = l.FencingToken(t.Context()); err != nil && !errors.Is(err, guard.ErrUnavailable) {
			t.Fatalf("FencingToken: %v", err)
		}
		return err == nil
	})
	return n
}

func wantErr(t *testing.T, got error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(got, w) {
			t.Fatalf("got error %v, want one that Is %v", got, w)
		}
	}
}

// lost waits until the lease's context has ended, and returns the time of that.
func lost(t *testing.T, l *guard.Lease, limit time.Duration) time.Time {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(limit):
		t.Fatalf("the lease was not lost within %v", limit)
	}
	at := time.Now()
	wantErr(t, context.Cause(l.Context()), guard.ErrLeaseLost)
	return at
}

// lostByRenewal waits until the lease's context has ended because a renewal did
// not find the key. It fails t if the deadline, which is later, was the cause.
// It returns the time since start. TTLs are so long that a busy machine has 3 s
// for it.
func lostByRenewal(t *testing.T, l *guard.Lease, start time.Time) time.Duration {
	t.Helper()
	at := lost(t, l, long)
	if end := l.Deadline(); !at.Before(end) {
		t.Errorf("it was told after %v, by its deadline", at.Sub(start))
	}
	return at.Sub(start).Round(time.Millisecond)
}

// took fails t if more than limit has passed since start, and returns the time
// since start.
func took(t *testing.T, what string, start time.Time, limit time.Duration) time.Duration {
	t.Helper()
	d := time.Since(start)
	if d > limit && timed(t, start) {
		t.Errorf("%s took %v, want at most %v", what, d, limit)
	}
	return d.Round(time.Millisecond)
}

func command(t *testing.T, rdb *redis.Client, args ...any) {
	t.Helper()
	if err := rdb.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}
