package redlock_test

import (
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
	if _, err := l.Inspect(t.Context(), "k"); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("Inspect: %v, want ErrInvalidOption", err)
	}
	_, _ = l.Release(t.Context(), claim("k"), locker.End{Queued: true}) // does nothing
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if held, nodes := l.Held("k"); held != 0 || nodes != 0 {
		t.Errorf("Held: %d of %d", held, nodes)
	}
}

// The caller's clients only tell where the nodes are, and stay open.
func TestClientsStayTheCallers(t *testing.T) {
	servers := redistest.StartN(t, 3)
	nodes := clientsOf(t, servers)
	l := open(t, nodes)
	mustAcquire(t, l, claim("k"))
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		c, _ := n.(*redis.Client)
		if used := c.PoolStats().Misses; used != 0 {
			t.Errorf("node %d: the caller's pool was used %d times", i+1, used)
		}
		if err := n.Ping(t.Context()).Err(); err != nil {
			t.Errorf("node %d: the caller's client: %v", i+1, err)
		}
	}
}
