package redislocker_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func sentinelOptions(s *redisproc.Sentinel) *redis.FailoverOptions {
	return &redis.FailoverOptions{MasterName: redisproc.SentinelName, SentinelAddrs: s.Addrs()}
}

// go-redis asks the first sentinel that it meets for the others, and subscribes
// there. A first turn does not wait for that.
func TestAFirstTurnDoesNotWaitForAllThatSentinelsCanTell(t *testing.T) {
	t.Parallel()
	var asking atomic.Int32
	o := sentinelOptions(redistest.StartSentinel(t))
	o.ReadTimeout = time.Hour // nobody gives up the request that is never answered
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &unheard{Conn: conn, asking: &asking}, nil
	}
	l, c := open(t, nil, redislocker.WithSentinel(o)), claim("k")
	eventually(t, "the key is acquired", func() bool { // with tries like the guard's
		a, err := l.Acquire(within(t, fullTry), c, locker.Try{})
		return err == nil && a.Acquired
	})
	eventually(t, "go-redis has asked and has no answer", func() bool { return asking.Load() > 0 })
	mustRelease(t, l, c)
}

// unheard is a connection to a sentinel that does not hear a request for the
// other sentinels.
type unheard struct {
	net.Conn

	asking *atomic.Int32 // such requests under way
	asked  atomic.Bool
}

func (u *unheard) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("sentinels")) {
		if !u.asked.Swap(true) {
			u.asking.Add(1)
		}
		return len(b), nil
	}
	return u.Conn.Write(b)
}

func (u *unheard) Close() error {
	if u.asked.Swap(false) {
		u.asking.Add(-1)
	}
	return u.Conn.Close()
}

// A sentinel that is behind the others names a server that may still take
// writes. A server that dies as a primary comes back as a primary.
func TestMostSentinelsDecideWhoIsThePrimary(t *testing.T) {
	t.Parallel()
	lab := redistest.Lab(t)
	servers, err := lab.StartN(2)
	if err != nil {
		t.Fatal(err)
	}
	primary, old := servers[0], servers[1]
	watch := func(s *redisproc.Server) *redisproc.Server {
		t.Helper()
		sentinel, err := lab.Watch(s)
		if err != nil {
			t.Fatal(err)
		}
		return sentinel
	}
	behind, one, two := watch(old), watch(primary), watch(primary)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l := open(t, nil, redislocker.WithSentinel(&redis.FailoverOptions{
		MasterName: redisproc.SentinelName, SentinelAddrs: []string{behind.Addr, one.Addr, two.Addr},
	}))
	acquiredOn := func(s *redisproc.Server) bool {
		c := claim(rand.Text())
		a, err := l.Acquire(t.Context(), c, locker.Try{})
		if err != nil || !a.Acquired {
			return false
		}
		defer func() { _, _ = l.Release(t.Context(), c, locker.End{}) }() // lost, if it was acquired before the switch
		n, err := s.Do(t.Context(), "exists", "guard:{"+c.Key+"}").Int()
		return err == nil && n == 1
	}
	must(one.Stop())
	must(two.Stop())
	// So go-redis listens to the sentinel that is behind.
	eventually(t, "who answers decides", func() bool { return acquiredOn(old) })

	must(one.Cont())
	must(two.Cont())
	must(one.Do(t.Context(), "ping").Err()) // on a busy machine it may take a moment
	must(two.Do(t.Context(), "ping").Err())
	must(old.Do(t.Context(), "client", "kill", "type", "normal").Err())
	for range 10 {
		if acquiredOn(old) {
			t.Fatal("a key was acquired on a server that one sentinel of three names")
		}
	}
	if !acquiredOn(primary) {
		t.Error("no key was acquired on the server that most name")
	}

	watchOther := func(s, primary *redisproc.Server) {
		t.Helper()
		host, port, _ := net.SplitHostPort(primary.Addr)
		must(s.Do(t.Context(), "sentinel", "remove", redisproc.SentinelName).Err())
		must(s.Do(t.Context(), "sentinel", "monitor", redisproc.SentinelName, host, port, 2).Err())
	}
	// The sentinel of go-redis has said so all the time, so go-redis does not
	// leave its connections.
	watchOther(one, old)
	eventually(t, "leases are where most sentinels say by now", func() bool { return acquiredOn(old) })
	watchOther(one, primary)
	eventually(t, "and back again", func() bool { return acquiredOn(primary) })

	two.Kill() // one against one
	must(primary.Do(t.Context(), "client", "kill", "type", "normal").Err())
	if a, err := l.Acquire(t.Context(), claim("split"), locker.Try{}); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Acquire where sentinels do not agree: %+v, %v, want ErrUnavailable", a, err)
	}
	behind.Kill() // the remaining one decides
	eventually(t, "a lease is acquired", func() bool {
		a, err := l.Acquire(t.Context(), claim("k"), locker.Try{})
		return err == nil && a.Acquired
	})
}

// go-redis has redis.Nil for a name that the sentinels do not know. A script
// has the same for a key that is held.
func TestAPrimaryThatSentinelsDoNotKnowIsARefusal(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	opts := sentinelOptions(s)
	opts.MasterName = "nobody"
	rdb := redis.NewFailoverClient(opts)
	defer func() { _ = rdb.Close() }()
	for name, l := range map[string]*redislocker.Locker{
		"WithSentinel":        redislocker.New(nil, redislocker.WithSentinel(opts)),
		"the caller's client": redislocker.New(rdb),
	} {
		t.Run(name, func(t *testing.T) {
			g, err := guard.New(l)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = g.Close(t.Context()) }()
			err = g.Do(t.Context(), "k", func(context.Context) error { return errors.New("ran") })
			if err == nil || errors.Is(err, guard.ErrNotAcquired) || !strings.Contains(err.Error(), "MasterName") {
				t.Errorf("%v, want a refusal that names MasterName", err)
			}
			_, err = l.Fence(t.Context(), &locker.Claim{Key: "k", Owner: "o", TTL: time.Second})
			if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrLeaseLost) {
				t.Errorf("a holder is told %v, which says nothing about its lease", err)
			}
		})
	}
}
