package redislocker_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const ttl = 30 * time.Second // of a lease that must not end in a test

// waker is a guard that knows no claim and hears nothing.
type waker = lockerkit.Deaf

// open opens a locker on rdb that is closed when t ends.
func open(t *testing.T, rdb redis.UniversalClient, opts ...redislocker.Option) *redislocker.Locker {
	t.Helper()
	return openFor(t, waker{}, rdb, opts...)
}

func openFor(t *testing.T, w locker.Waker, rdb redis.UniversalClient, opts ...redislocker.Option) *redislocker.Locker {
	t.Helper()
	l := redislocker.New(rdb, opts...)
	if err := l.Open(w); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func claim(key string) *locker.Claim {
	return &locker.Claim{Key: key, Owner: rand.Text()[:locker.OwnerLen], TTL: ttl}
}

func fenced(key string) *locker.Claim {
	c := claim(key)
	c.Fencing = true
	return c
}

func mustAcquire(t *testing.T, l locker.Locker, c *locker.Claim) (token uint64) {
	t.Helper()
	return mustTry(t, l, c, locker.Try{})
}

// mustTry acquires c as the try says.
func mustTry(t *testing.T, l locker.Locker, c *locker.Claim, how locker.Try) (token uint64) {
	t.Helper()
	a, err := l.Acquire(t.Context(), c, how)
	if err != nil || !a.Acquired {
		t.Fatalf("Acquire: %+v, %v, want success", a, err)
	}
	return a.Token
}

// held tries to acquire c, and must find that somebody else owns the key.
func held(t *testing.T, l locker.Locker, c *locker.Claim, how locker.Try) locker.Answer {
	t.Helper()
	a, err := l.Acquire(t.Context(), c, how)
	if err != nil || a.Acquired {
		t.Fatalf("Acquire: %+v, %v, want the key held", a, err)
	}
	return a
}

func mustRelease(t *testing.T, l locker.Locker, c *locker.Claim) {
	t.Helper()
	if _, err := l.Release(t.Context(), c, locker.End{}); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// release releases c, and must find the wanted result. The place of next is not
// compared.
func release(t *testing.T, l locker.Locker, c, next *locker.Claim, want locker.Released) {
	t.Helper()
	r, err := l.Release(t.Context(), c, locker.End{Next: next})
	r.Place = 0
	if err != nil || r != want {
		t.Fatalf("Release: %+v, %v, want %+v", r, err, want)
	}
}

// renew returns the answer for each claim. There must be one answer each when
// Renew returns.
func renew(ctx context.Context, t *testing.T, l locker.Locker, cs ...*locker.Claim) []error {
	t.Helper()
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, 2*len(cs))
	l.Renew(ctx, cs, func(i int, err error) { answers <- answer{i, err} })
	if n := len(answers); n != len(cs) {
		t.Fatalf("Renew of %d claims gave %d answers", len(cs), n)
	}
	errs := make([]error, len(cs))
	seen := make([]bool, len(cs))
	for range cs {
		a := <-answers
		if seen[a.i] {
			t.Fatalf("Renew answered twice for claim %d", a.i)
		}
		errs[a.i], seen[a.i] = a.err, true
	}
	return errs
}

// within returns a context for a call that must end soon.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(ttl / 2); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be: %s", what)
		}
	}
}

// size is the number of keys on the server.
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
	eventually(t, "the server is empty", func() bool { return size(t, rdb) == 0 })
}

// behindProxy starts a server and a proxy, and returns clients of both.
func behindProxy(t *testing.T) (*redistest.Server, *redistest.Proxy, *redis.Client, *redis.Client) {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	return s, p, redistest.Client(t, s.Addr), redistest.Client(t, p.Addr)
}

// recalls returns a claim on key that wants its record.
func recalls(key string) *locker.Claim {
	c := claim(key)
	c.Recall = true
	return c
}
