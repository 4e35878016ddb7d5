package redislocker_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// fullTry is the limit of a try of a guard.
const fullTry = 500 * time.Millisecond

// someTries are fewer than make go-redis dial in the background, which goes on
// for a second after Close.
const someTries = 12

// wantHeard tries n times, and wants no success and no silence.
func wantHeard(t *testing.T, l locker.Locker, n int) (last error) {
	t.Helper()
	for range n { // with so much time that a machine which stands still is no silence
		_, err := l.Acquire(within(t, 20*fullTry), claim("k"), locker.Try{})
		if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrSilent) {
			t.Fatalf("Acquire: %v, want an ErrUnavailable that is no ErrSilent", err)
		}
		last = err
	}
	return last
}

func TestAServerThatIsFullSaysSo(t *testing.T) {
	for name, password := range map[string]string{"open": "", "with a password": "secret"} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, "--requirepass", password)
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Password: password})
			t.Cleanup(func() { _ = rdb.Close() })
			if err := rdb.ConfigSet(t.Context(), "maxclients", "1").Err(); err != nil {
				t.Fatal(err)
			}
			l := open(t, rdb)
			for range someTries {
				if err := wantHeard(t, l, 1); !strings.Contains(err.Error(), "max number of clients reached") {
					t.Errorf("Acquire: %v, want the reason", err)
				}
			}
		})
	}
}

// Redis 5 does not know the first request of a login. That is no reason to give
// up for good if its connection breaks in the next.
func TestABrokenLoginOfAnOldServerIsUnavailable(t *testing.T) {
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = door.Close() }()
	go func() { // ends with door
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 1024)
			_, _ = c.Read(b)
			_, _ = c.Write([]byte("-ERR unknown command `hello`, with args beginning with: `2`, \r\n"))
			_, _ = c.Read(b)
			_ = c.Close()
		}
	}()
	rdb := redis.NewClient(&redis.Options{Addr: door.Addr().String(), Password: "secret"})
	t.Cleanup(func() { _ = rdb.Close() })
	_ = wantHeard(t, open(t, rdb), someTries)
}

func TestAConnectionThatBreaksIsNoSilence(t *testing.T) {
	t.Run("in the login", func(t *testing.T) { // as of a proxy whose server is gone
		door, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = door.Close() }()
		go func() { // ends with door
			for {
				c, err := door.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
		_ = wantHeard(t, open(t, redistest.Client(t, door.Addr().String())), someTries)
	})
	t.Run("under a request", func(t *testing.T) {
		_, p, _, rdb := behindProxy(t)
		l := open(t, rdb)
		for range 50 {
			mustAcquire(t, l, claim(rdb.String())) // there is a connection
			rdb.Del(t.Context(), lock(rdb.String()))
			p.KillNextReply()
			_ = wantHeard(t, l, 1)
			rdb.Del(t.Context(), lock("k"))
		}
	})
}

// Nobody listens any more, and no try waits for that in virtual time.
func TestAServerThatIsGoneIsSilentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, opts := redistest.InMemory(t.Cleanup)
		served, gone := opts.Dialer, atomic.Bool{}
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				return net.Dial(network, "127.0.0.1:1") // where nobody listens
			}
			return served(ctx, network, addr)
		}
		rdb := redis.NewClient(opts)
		t.Cleanup(func() { _ = rdb.Close() })
		l := open(t, rdb)
		c := claim("k")
		mustAcquire(t, l, c)
		mustRelease(t, l, c)
		gone.Store(true)
		m.Close()
		_ = wantHeard(t, l, 1) // its connection broke
		start := time.Now()
		for range someTries / 2 {
			_, err := l.Acquire(within(t, fullTry), claim("k"), locker.Try{})
			if !errors.Is(err, locker.ErrSilent) || time.Since(start) != 0 {
				t.Fatalf("Acquire: %v after %v, want ErrSilent at once", err, time.Since(start))
			}
		}
	})
}

// A new process has no connection. That the server is far away does not look
// like silence, but a server that hangs soon does.
func TestSilenceIsToldFromDistanceByANewProcess(t *testing.T) {
	t.Run("far", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openFar(t, redistest.Distance{RoundTrip: 400 * time.Millisecond, Opening: 2})
			for range 10 {
				a, err := l.Acquire(within(t, fullTry), claim("k"), locker.Try{})
				if errors.Is(err, locker.ErrSilent) {
					t.Fatalf("Acquire: %v, want no ErrSilent", err)
				}
				if a.Acquired {
					return
				}
			}
			t.Error("the key was never acquired")
		})
	})
	t.Run("hung", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		l := open(t, redistest.Client(t, s.Addr))
		s.Stop()
		defer s.Cont()
		eventually(t, "the server is silent", func() bool {
			_, err := l.Acquire(within(t, fullTry), claim("k"), locker.Try{})
			return errors.Is(err, locker.ErrSilent)
		})
	})
}

// A claim that waits may lose its connection, and has no other in time. It is
// in the queue all the same.
func TestATryWithoutAConnectionDoesNotForgetTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openFar(t, redistest.Distance{RoundTrip: time.Hour, Opening: 1})
		for _, queued := range []bool{false, true} {
			a, err := l.Acquire(within(t, fullTry), claim("k"), locker.Try{Wait: true, Queued: queued})
			if a.Queued != queued || !errors.Is(err, locker.ErrUnavailable) {
				t.Errorf("Queued %v, %v, want %v and ErrUnavailable", a.Queued, err, queued)
			}
		}
	})
}
