package redislocker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// other is a client of an unknown type.
type other struct{ *redis.Client }

func TestOpenReportsWhatIsWrong(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	strict := redis.NewClient(&redis.Options{MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = strict.Close() }()
	lax := redis.NewClient(&redis.Options{MaxRetries: -1})
	defer func() { _ = lax.Close() }()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{})
	defer func() { _ = cluster.Close() }()

	watched := &redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}

	type opts = []redislocker.Option
	with := redislocker.WithClient
	prefix := redislocker.WithPrefix
	for name, c := range map[string]struct {
		rdb  redis.UniversalClient
		opts opts
		ok   bool
	}{
		"a client":                  {rdb, nil, true},
		"a cluster client":          {cluster, nil, true},
		"a prefix":                  {rdb, opts{prefix("shop:1")}, true},
		"a hook":                    {rdb, opts{redislocker.WithHook(&wire{})}, true},
		"another client, as it is":  {nil, opts{with(other{strict})}, true},
		"a strict client, as it is": {rdb, opts{with(strict)}, true},

		"Sentinel, without a client": {nil, opts{redislocker.WithSentinel(watched)}, true},
		"Sentinel, beside a client":  {rdb, opts{redislocker.WithSentinel(watched)}, true},

		"replicas":           {rdb, opts{redislocker.WithReplicas(1, time.Second)}, true},
		"replicas, none":     {rdb, opts{redislocker.WithReplicas(0, 0)}, true},
		"replicas below 0":   {rdb, opts{redislocker.WithReplicas(-1, time.Second)}, false},
		"replicas, for ever": {rdb, opts{redislocker.WithReplicas(1, 0)}, false},
		"replicas of what":   {nil, opts{with(other{strict}), redislocker.WithReplicas(1, time.Second)}, false},

		"Sentinel without options": {rdb, opts{redislocker.WithSentinel(nil)}, false},
		"Sentinel without a name": {
			rdb,
			opts{redislocker.WithSentinel(&redis.FailoverOptions{SentinelAddrs: watched.SentinelAddrs})},
			false,
		},
		"Sentinel without sentinels": {
			rdb,
			opts{redislocker.WithSentinel(&redis.FailoverOptions{MasterName: "m"})},
			false,
		},
		"Sentinel's replicas": {rdb, opts{redislocker.WithSentinel(&redis.FailoverOptions{
			MasterName:    "m",
			SentinelAddrs: watched.SentinelAddrs, ReplicaOnly: true,
		})}, false},
		"Sentinel and a client as it is": {rdb, opts{redislocker.WithSentinel(watched), with(strict)}, false},

		"no client":                     {nil, nil, false},
		"typed nil":                     {(*redis.Client)(nil), nil, false},
		"typed nil cluster":             {(*redis.ClusterClient)(nil), nil, false},
		"a ring":                        {ring, nil, false},
		"another client":                {other{rdb}, nil, false},
		"empty prefix":                  {rdb, opts{prefix("")}, false},
		"prefix with a brace":           {rdb, opts{prefix("a{b")}, false},
		"prefix with a closing brace":   {rdb, opts{prefix("a}b")}, false},
		"prefix with a control byte":    {rdb, opts{prefix("a\n")}, false},
		"raw keys":                      {rdb, opts{redislocker.WithKeyNames(legacy)}, true},
		"raw keys of nil":               {rdb, opts{redislocker.WithKeyNames(nil)}, false},
		"no client name":                {rdb, opts{redislocker.WithClientName("")}, true},
		"client name with a blank":      {rdb, opts{redislocker.WithClientName("a b")}, false},
		"nil option":                    {rdb, opts{nil}, false},
		"nil hook":                      {rdb, opts{redislocker.WithHook(nil)}, false},
		"WithClient(nil)":               {rdb, opts{with(nil)}, false},
		"WithClient of typed nil":       {rdb, opts{with((*redis.Client)(nil))}, false},
		"WithClient of a ring":          {rdb, opts{with(ring)}, false},
		"WithClient that retries":       {rdb, opts{with(rdb)}, false},
		"WithClient without deadlines":  {rdb, opts{with(lax)}, false},
		"WithClient of a lax cluster":   {rdb, opts{with(cluster)}, false},
		"WithHook beside WithClient":    {rdb, opts{with(strict), redislocker.WithHook(&wire{})}, false},
		"a good option after a bad one": {rdb, opts{prefix(""), nil, redislocker.WithHook(&wire{})}, false},
	} {
		g, err := guard.New(redislocker.New(c.rdb, c.opts...))
		if c.ok != (err == nil) || err != nil && !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
		if g != nil {
			if err := g.Close(t.Context()); err != nil {
				t.Errorf("%s: Close: %v", name, err)
			}
		}
	}
}

func TestClientAsItIsIsUsedAndNotClosed(t *testing.T) {
	addr := redistest.Start(t).Addr
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	w := &wire{}
	rdb.AddHook(w)
	l := open(t, redistest.Client(t, addr), redislocker.WithClient(rdb))
	mustAcquire(t, l, claim("k"))
	if n := w.requests(); n == 0 {
		t.Error("the client was not used")
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestOpenSendsNothing(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr, MinIdleConns: 5, DialerRetries: 3})
	defer func() { _ = rdb.Close() }()
	l := open(t, rdb)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rdb.PoolStats().Hits + rdb.PoolStats().Misses; n != 0 {
		t.Errorf("%d uses of the caller's connections", n)
	}
	if c := p.Commands(); c["EVALSHA"] != 0 || c["PING"] != 0 {
		t.Errorf("sent: %v", c)
	}
}
