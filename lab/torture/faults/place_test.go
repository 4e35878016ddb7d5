package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
)

// place has the servers that keep keys. A server of it that stops for some
// seconds is not replaced.
type place struct {
	name    string
	to      string // as rig.Connect takes it
	servers []*redisproc.Server
	direct  []*redis.Client // one for each server
}

const forgiving = "20000" // ms that a server may be silent

func oneServer(t *testing.T) *place {
	t.Helper()
	s := serve(t)
	return newPlace(t, "one server", s.Addr, s.Server)
}

func underSentinel(t *testing.T) *place {
	t.Helper()
	s := redistest.StartSentinel(t)
	for _, watch := range s.Sentinels {
		err := watch.Do(t.Context(), "sentinel", "set", redisproc.SentinelName, "down-after-milliseconds",
			forgiving).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	return newPlace(t, "Sentinel", rig.Sentinels+strings.Join(s.Addrs(), ","), s.Nodes[0])
}

func inACluster(t *testing.T) *place {
	t.Helper()
	c := startCluster(t, false)
	p := newPlace(t, "a cluster", rig.Cluster+strings.Join(c.Addrs(), ","), c.Nodes...)
	for _, rdb := range p.direct {
		command(t, rdb, "config", "set", "cluster-node-timeout", forgiving)
	}
	return p
}

func newPlace(t *testing.T, name, to string, servers ...*redisproc.Server) *place {
	t.Helper()
	p := &place{name: name, to: to, servers: servers}
	for _, s := range servers {
		p.direct = append(p.direct, redistest.Client(t, s.Addr))
	}
	return p
}

// client returns a new client, which is closed when t ends.
func (p *place) client(t *testing.T) redis.UniversalClient {
	t.Helper()
	rdb := rig.Connect(p.to)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// open opens a guard with a client of its own.
func (p *place) open(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return newGuard(t, p.client(t), opts...)
}

// stop stops all servers for that long.
func (p *place) stop(t *testing.T, lasts time.Duration) {
	t.Helper()
	for _, s := range p.servers {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(lasts)
	for _, s := range p.servers {
		if err := s.Cont(); err != nil {
			t.Fatal(err)
		}
	}
}

// inboxes returns the number of processes that can be told of a hand-over.
func (p *place) inboxes(ctx context.Context) (n int) {
	for _, rdb := range p.direct {
		n += len(rdb.PubSubChannels(ctx, "guard:inbox:*").Val())
	}
	return n
}
