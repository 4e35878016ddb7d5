package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redlock"
)

func TestWhatIsWrongWithTheSettingsIsSaidAtOpen(t *testing.T) {
	client := func() *redis.Client { return redistest.Client(t, "127.0.0.1:1") } // sends nothing
	nodes := func(n int) (all []redis.UniversalClient) {
		for range n {
			all = append(all, client())
		}
		return all
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer func() { _ = cluster.Close() }()
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	defer func() { _ = sentinel.Close() }()
	twice := client()

	for _, c := range []struct {
		name  string
		nodes []redis.UniversalClient
		opts  []redlock.Option
		says  string
	}{
		{"no node", nil, nil, "odd"},
		{"one node", nodes(1), nil, "odd"},
		{"an even number", nodes(4), nil, "odd"},
		{"a nil client", append(nodes(2), nil), nil, "node 3"},
		{"a nil pointer", append(nodes(2), (*redis.Client)(nil)), nil, "node 3"},
		{"a cluster", append(nodes(2), cluster), nil, "one server"},
		{"a Sentinel client", append(nodes(2), sentinel), nil, "Sentinel"},
		{"a client twice", append(nodes(1), twice, twice), nil, "nodes 2 and 3"},
		{"a nil option", nodes(3), []redlock.Option{nil}, "nil"},
		{"no time for a node", nodes(3), []redlock.Option{redlock.WithNodeLimit(0)}, "limit"},
		{
			"a restart delay below 0", nodes(3),
			[]redlock.Option{redlock.WithRestartDelay(-time.Second)},
			"restart delay",
		},
		{"an empty prefix", nodes(3), []redlock.Option{redlock.WithPrefix("")}, "prefix"},
	} {
		err := redlock.New(c.nodes, c.opts...).Open(waker{})
		if !errors.Is(err, locker.ErrInvalidOption) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrInvalidOption that says %q", c.name, err, c.says)
		}
	}
}

func TestPrefixesKeepLockersApart(t *testing.T) {
	nodes := clientsOf(t, redistest.StartN(t, 3))
	a, b := open(t, nodes, redlock.WithPrefix("a")), open(t, nodes, redlock.WithPrefix("b"))
	mustAcquire(t, a, claim("k"))
	mustAcquire(t, b, claim("k"))
	refused(t, a, claim("k"))
}

func TestALockerThatWasNotOpenedSaysSo(t *testing.T) {
	l := redlock.New(nil)
	if _, err := l.Acquire(t.Context(), claim("k"), locker.Try{}); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("Acquire: %v, want ErrInvalidOption", err)
	}
	_, _ = l.Release(t.Context(), claim("k"), locker.End{Queued: true}) // does nothing
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if held, nodes := l.Held("k"); held != 0 || nodes != 0 {
		t.Errorf("Held: %d of %d", held, nodes)
	}
}

// Close does not wait longer than its context allows. That is true even if
// nodes hang that have something to clean up.
func TestCloseEndsWithItsContext(t *testing.T) {
	servers := redistest.StartN(t, 3)
	l := redlock.New(clientsOf(t, servers), redlock.WithRestartDelay(0))
	if err := l.Open(waker{}); err != nil {
		t.Fatal(err)
	}
	c := claim("k")
	mustAcquire(t, l, c)
	for _, s := range servers {
		s.Stop()
		t.Cleanup(s.Cont)
	}
	_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v, want its context's error", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestCallsAfterCloseAreRefused(t *testing.T) {
	l := redlock.New(clientsOf(t, redistest.StartN(t, 3)), redlock.WithRestartDelay(0))
	if err := l.Open(waker{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Inspect(t.Context(), "k"); !errors.Is(err, locker.ErrClosed) {
		t.Errorf("Inspect: %v, want ErrClosed", err)
	}
	if err := l.ForceRelease(t.Context(), "k", claim("k").Owner); !errors.Is(err, locker.ErrClosed) {
		t.Errorf("ForceRelease: %v, want ErrClosed", err)
	}
}
