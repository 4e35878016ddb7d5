package redislocker_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func TestALoginIsOneRoundTripWithTheName(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	l := open(t, rdb)
	mustAcquire(t, l, claim("k"))
	if c := p.Commands(); c["HELLO"] != 1 || c["CLIENT"] != 0 {
		t.Errorf("a first acquire sent %v, want one HELLO that names the connection", c)
	}
	if list := direct.ClientList(t.Context()).Val(); strings.Count(list, "name=guard ") != 1 {
		t.Errorf("clients:\n%s", list)
	}
}

func TestALoginHasPasswordAndDatabase(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Password: "secret", DB: 3})
	t.Cleanup(func() { _ = rdb.Close() })
	l := open(t, rdb)
	c := claim("k")
	mustAcquire(t, l, c)
	if n := rdb.Exists(t.Context(), lock("k")).Val(); n != 1 {
		t.Error("the key is in another database")
	}
	mustRelease(t, l, c)
}

// A try that gets its connection late leaves it for the next one.
func TestADialGoesOnWhenItsTryHasEnded(t *testing.T) {
	for name, opening := range map[string]int{"far": 2, "behind a near end of TCP, as of a tunnel": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, opts := redistest.InMemory(t.Cleanup)
				dial := redistest.Distance{RoundTrip: 300 * time.Millisecond, Opening: opening}.Over(opts.Dialer)
				dials := 0
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials++
					return dial(ctx, network, addr)
				}
				rdb := redis.NewClient(opts)
				defer func() { _ = rdb.Close() }()
				l := open(t, rdb)
				for range 20 {
					if a, err := l.Acquire(within(t, fullTry), claim("k"), locker.Try{}); err == nil && a.Acquired {
						if dials > 2 {
							t.Errorf("%d connections for one try at a time", dials)
						}
						return
					}
				}
				t.Error("no try ever found a connection")
			})
		})
	}
}

// A provider that reports new credentials as they come is asked on the first
// connection. Once the locker is closed, the provider has no listener left.
func TestALoginAsksAStreamOfCredentials(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	from := &stream{}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, StreamingCredentialsProvider: from})
	defer func() { _ = rdb.Close() }()
	l := redislocker.New(rdb)
	if err := l.Open(newEar()); err != nil {
		t.Fatal(err)
	}
	c := claim("k")
	mustAcquire(t, l, c)
	mustRelease(t, l, c)
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if asked, left := from.asked.Load(), from.listeners.Load(); asked == 0 || left != 0 {
		t.Errorf("asked %d times, %d listeners are left", asked, left)
	}
}

// stream is a provider whose credentials never change.
type stream struct{ asked, listeners atomic.Int32 }

func (s *stream) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.asked.Add(1)
	s.listeners.Add(1)
	return auth.NewBasicCredentials("default", "secret"), func() error { s.listeners.Add(-1); return nil }, nil
}
