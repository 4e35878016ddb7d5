package redislocker_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const ttl = 30 * time.Second // of a lease that must not end in a test

type waker struct{}

func (waker) Wake(string, int) bool { return false }
func (waker) Wanted(string)         {}
func (waker) WakeAll()              {}

// open opens a locker on rdb that is closed when t ends.
func open(t *testing.T, rdb redis.UniversalClient, opts ...redislocker.Option) *redislocker.Locker {
	t.Helper()
	l := redislocker.New(rdb, opts...)
	if err := l.Open(waker{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func claim(key string) *guard.Claim {
	return &guard.Claim{Key: key, Owner: rand.Text()[:guard.OwnerLen], TTL: ttl}
}

func fenced(key string) *guard.Claim {
	c := claim(key)
	c.Fencing = true
	return c
}

func mustAcquire(t *testing.T, l guard.Locker, c *guard.Claim) (token uint64) {
	t.Helper()
	token, err := l.Acquire(t.Context(), c)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return token
}

func mustRelease(t *testing.T, l guard.Locker, c *guard.Claim) {
	t.Helper()
	if _, err := l.Release(t.Context(), c); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// within returns a context for a call that must end soon.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// size is how many keys the server has.
func size(t *testing.T, rdb redis.UniversalClient) int64 {
	t.Helper()
	n, err := rdb.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// emptied waits until the server has no keys.
func emptied(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	for end := time.Now().Add(ttl / 2); size(t, rdb) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left behind: %q", rdb.Keys(t.Context(), "*").Val())
		}
	}
}

// behindProxy starts a server and a proxy, and returns clients of both.
func behindProxy(t *testing.T) (*redistest.Server, *redistest.Proxy, *redis.Client, *redis.Client) {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	return s, p, redistest.Client(t, s.Addr), redistest.Client(t, p.Addr)
}
