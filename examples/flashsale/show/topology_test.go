package show

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

// topology is several servers of which one is lost.
type topology struct {
	url     string
	primary func(key string) (*redisproc.Server, error) // who has key
	await   func(key string, old *redisproc.Server) error
}

// silence is how many ms a server may be silent. None may be replaced because
// the machine stood still: what it has answered then may be lost.
const silence = "4000"

// configure sends a command to each server.
func configure(t *testing.T, servers []*redisproc.Server, args ...any) {
	t.Helper()
	for _, s := range servers {
		if err := s.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func startSentinel(t *testing.T) topology {
	t.Helper()
	set := redistest.StartSentinel(t)
	configure(t, set.Sentinels, "sentinel", "set", redisproc.SentinelName, "down-after-milliseconds", silence)
	return topology{
		url:     "redis+sentinel://" + strings.Join(set.Addrs(), ",") + "/" + redisproc.SentinelName,
		primary: func(string) (*redisproc.Server, error) { return set.Primary() },
		await:   func(_ string, old *redisproc.Server) error { return set.AwaitOther(old) },
	}
}

func startCluster(t *testing.T) topology {
	t.Helper()
	c := redistest.StartReplicatedCluster(t)
	configure(t, c.Nodes, "config", "set", "cluster-node-timeout", silence)
	return topology{
		url: "redis+cluster://" + strings.Join(c.Addrs(), ","),
		primary: func(key string) (*redisproc.Server, error) {
			slot, err := c.Slot(key)
			if err != nil {
				return nil, err
			}
			return c.Primary(slot)
		},
		await: func(key string, old *redisproc.Server) error {
			slot, err := c.Slot(key)
			if err != nil {
				return err
			}
			return c.AwaitOther(slot, old)
		},
	}
}

func TestTheSaleSurvivesTheLossOfThePrimary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start func(t *testing.T) topology
		key   string // whose primary is lost
	}{
		"Sentinel":                    {startSentinel, "{lamp}"},
		"Cluster, the book's primary": {startCluster, "{lamp}"},
		"Cluster, the lock's primary": {startCluster, "{stock:lamp}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			top := c.start(t)
			cfg := defaultConfig()
			cfg.redis = top.url
			cfg.Requests, cfg.Stock, cfg.Buyers, cfg.Wait = 1000, 200, 40, 20*time.Second
			s, err := openSale(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.close(); err != nil {
					t.Error(err)
				}
				wantNoKeys(t, top.url)
			}()

			sold := make(chan struct{})
			go func() {
				defer close(sold)
				s.sell(t.Context(), 1, cfg.Requests/2, s.fleet)
			}()
			for s.ledger.counts().Sold < cfg.Stock/4 {
				shop.Pause(t.Context(), time.Millisecond)
			}
			old, err := top.primary(c.key)
			if err != nil {
				t.Fatal(err)
			}
			lose(t, old)
			killed := time.Now()
			before := s.ledger.counts().Sold
			<-sold
			if err := top.await(c.key, old); err != nil {
				t.Fatal(err)
			}
			s.sell(t.Context(), 1+cfg.Requests/2, cfg.Requests/2, s.fleet) // some may have been refused meanwhile

			res, err := s.result(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d sold before the loss, the end %v after it; %d refused %v, %d errors (%s)",
				before, time.Since(killed),
				res.Refused, res.RefusedByReason, res.Errors, res.complaint)
			if faults := res.broken(); len(faults) > 0 || res.Sold != cfg.Stock || before == cfg.Stock {
				t.Errorf("%d of %d sold, %d of them before the loss, broken: %v", res.Sold, cfg.Stock, before, faults)
			}
		})
	}
}

// lose kills a primary whose replicas have all that it has answered. Redis
// would lose the rest, and the sale's book with it.
func lose(t *testing.T, primary *redisproc.Server) {
	t.Helper()
	do := func(args ...any) string {
		text, err := primary.Do(t.Context(), args...).Text()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	do("client", "pause", "60000", "write")
	offset := regexp.MustCompile(`(?:master_repl_offset:|,offset=)(\d+)`)
	for behind := true; behind; {
		offsets := offset.FindAllStringSubmatch(do("info", "replication"), -1)
		other := func(o []string) bool { return o[1] != offsets[0][1] }
		behind = len(offsets) < 2 || slices.ContainsFunc(offsets, other)
	}
	primary.Kill()
}

// wantNoKeys fails t if the run has left a key at any node that takes writes.
func wantNoKeys(t *testing.T, addr string) {
	t.Helper()
	e, err := parseRedis(addr)
	if err != nil {
		t.Fatal(err)
	}
	rdb := e.Client()
	defer rdb.Close()
	ctx := context.WithoutCancel(t.Context())
	look := func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, "*").Result()
		if len(keys) > 0 {
			t.Errorf("left in Redis: %v", keys)
		}
		return err
	}
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		err = rdb.ForEachMaster(ctx, look)
	case *redis.Client:
		err = look(ctx, rdb)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestAnAddressOfSeveralServersIsReadAndShownWithoutPasswords(t *testing.T) {
	for addr, want := range map[string]struct {
		name  string
		check func(e endpoint) bool
	}{
		"redis+sentinel://a:1,b:2,c:3/mymaster": {"mymaster of the Sentinels at a:1, b:2, c:3", func(e endpoint) bool {
			return e.Sentinel.MaxRetries == -1 && e.Sentinel.TLSConfig == nil
		}},
		"rediss+sentinel://u:p%40@a:1,b:2/m?db=3&username=x&password=" + secret: {
			"m of the Sentinels at a:1, b:2",
			func(e endpoint) bool {
				o := e.Sentinel
				return o.DB == 3 && o.SentinelUsername == "u" && o.SentinelPassword == "p@" && o.Username == "x" &&
					o.Password == secret && o.TLSConfig != nil
			},
		},
		"redis+cluster://u:" + secret + "@a:1,[::1]:2?max_retries=2": {
			"Cluster at a:1, [::1]:2",
			func(e endpoint) bool {
				return e.Cluster.Username == "u" && e.Cluster.Password == secret && e.Cluster.MaxRetries == 2
			},
		},
		"rediss+cluster://a:1": {
			"Cluster at a:1",
			func(e endpoint) bool { return e.Cluster.TLSConfig != nil },
		},
		"redis://u:" + secret + "@a:1/2": {
			"a:1",
			func(e endpoint) bool { return e.Single.DB == 2 && e.Single.Password == secret },
		},
		"a:1": {"a:1", func(e endpoint) bool { return e.Single.MaxRetries == -1 }},
	} {
		e, err := parseRedis(addr)
		if err != nil || e.name() != want.name || !want.check(e) {
			t.Errorf("%s: %q, %v, %+v", addr, e.name(), err, e)
		}
	}
	for _, addr := range []string{
		"redis://u:" + secret + "@a:x", "redis+cluster://u:" + secret + "@a:1,b", "redis+sentinel://u:" + secret +
			"@a:1", "redis+cluster://u:" + secret + "%zz@a:1",
		"redis://u:%zz" + secret + "@a:1",
		"redis+sentinel://a:1/m?password=" + secret + "&x=1",
		"u:" + secret + "@a:1", secret + "@a:1", "redis://u:p/" + secret + "@a:1/0", "redis://u:1/" + secret + "@a:1/0",
		"redis://u:1#" + secret + "@a:1",
		"redis+sentinel://" + secret + "/p@a:1/m", "redis+cluster://u:1?" + secret + "@a:1",
		"unix://u:1/" + secret + "@/tmp/s",
	} {
		if _, err := parseRedis(addr); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
