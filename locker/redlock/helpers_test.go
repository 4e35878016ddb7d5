package redlock_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redlock"
)

const ttl = 30 * time.Second // of a lease that must not end in a test

// waker is a guard that knows no claim and hears nothing.
type waker = lockerkit.Deaf

// open opens a locker that is closed when t ends. Its nodes count at once, and
// have so long to answer that a busy machine is none of them, unless opts say
// otherwise.
func open(t testing.TB, nodes []redis.UniversalClient, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l := redlock.New(nodes, append([]redlock.Option{
		redlock.WithRestartDelay(0), redlock.WithNodeLimit(ttl / 3),
	}, opts...)...)
	if err := l.Open(waker{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// clientsOf returns a client for each server.
func clientsOf(t testing.TB, servers []*redistest.Server) []redis.UniversalClient {
	t.Helper()
	nodes := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		nodes[i] = redistest.Client(t, s.Addr)
	}
	return nodes
}

func claim(key string) *locker.Claim {
	return &locker.Claim{
		Key: key, Owner: rand.Text()[:locker.OwnerLen], TTL: ttl, Holder: locker.Holder{Since: time.Now()},
	}
}

func fenced(key string) *locker.Claim {
	c := claim(key)
	c.Fencing = true
	return c
}

// mustAcquire acquires c. It tries again as a guard does, because a node that
// has come back counts only from its next answer on.
func mustAcquire(t testing.TB, l locker.Locker, c *locker.Claim) (token uint64) {
	t.Helper()
	var a locker.Answer
	var err error
	for end := time.Now().Add(ttl / 2); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if a, err = l.Acquire(t.Context(), c, locker.Try{}); err == nil && a.Acquired {
			return a.Token
		}
	}
	t.Fatalf("Acquire: %+v, %v, want success", a, err)
	return 0
}

// refused tries to acquire c and must find that another claim owns the key.
func refused(t testing.TB, l locker.Locker, c *locker.Claim) {
	t.Helper()
	if a, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil || a.Acquired {
		t.Fatalf("Acquire: %+v, %v, want the key held", a, err)
	}
}

func mustRelease(t testing.TB, l locker.Locker, c *locker.Claim) {
	t.Helper()
	if _, err := l.Release(t.Context(), c, locker.End{}); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func renew(t testing.TB, l locker.Locker, c *locker.Claim) (err error) {
	t.Helper()
	l.Renew(t.Context(), []*locker.Claim{c}, func(_ int, e error) { err = e })
	return err
}

// eventually waits until the condition is true.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(ttl / 2); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be: %s", what)
		}
	}
}

// heldOn waits until l holds key on n nodes.
func heldOn(t testing.TB, l *redlock.Locker, key string, n int) {
	t.Helper()
	held := 0
	eventually(t, "the key is held on all nodes that answer", func() bool { held, _ = l.Held(key); return held == n })
}

// has reports whether a server has a lease of key.
func has(t testing.TB, s *redistest.Server, key string) bool {
	t.Helper()
	n, err := redistest.Client(t, s.Addr).Exists(t.Context(), "guard:{"+key+"}").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}
