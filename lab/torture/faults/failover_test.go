package faults

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Messages that come from another server than the keys, and failovers that lose
// no write, while processes wait for each other.

// rush is a number of processes that want one key all the time.
type rush struct {
	stop func() // ends it and waits

	mu       sync.Mutex // guards the fields below
	inside   map[*guard.Lease]bool
	sections int
	overlaps int
	last     time.Time     // when the last section ended
	idle     time.Duration // the longest time without a section
}

// rushTTL is so long that no offer, of a third of it, ends while a busy machine
// stands still. A lost message costs an offer.
const rushTTL = 4 * time.Second

// startRush lets these guards contend for one key, until it is stopped.
func startRush(t *testing.T, gs ...*guard.Guard) *rush {
	t.Helper()
	r := &rush{inside: map[*guard.Lease]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, g := range gs {
		running.Go(func() { // ends with ctx
			for ctx.Err() == nil {
				if g.Do(ctx, key, func(ctx context.Context) error { r.section(ctx); return nil }) != nil {
					time.Sleep(5 * time.Millisecond) // a server that is down refuses at once
				}
			}
		})
	}
	r.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(r.stop)
	r.await(t, 20)
	return r
}

// section is one turn. It overlaps with each other one whose lease is not lost.
func (r *rush) section(ctx context.Context) {
	lease, _ := guard.LeaseFrom(ctx)
	r.mu.Lock()
	for other := range r.inside {
		if other.Err() == nil {
			r.overlaps++
		}
	}
	r.inside[lease] = true
	if now := time.Now(); !r.last.IsZero() {
		r.idle = max(r.idle, now.Sub(r.last))
	}
	r.mu.Unlock()
	time.Sleep(2 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, lease)
	r.sections++
	r.last = time.Now()
}

// await waits for that many more sections, as long as they come.
func (r *rush) await(t *testing.T, more int) {
	t.Helper()
	count := func() int { r.mu.Lock(); defer r.mu.Unlock(); return r.sections }
	for n, end := count(), count()+more; n < end; n = count() {
		testguard.Eventually(t, "one more section", func() bool { return count() > n })
	}
}

// oneAtATime ends the rush, and fails t if two were inside at once.
func (r *rush) oneAtATime(t *testing.T) {
	t.Helper()
	r.stop()
	if r.overlaps > 0 {
		t.Errorf("%d of %d sections overlapped", r.overlaps, r.sections)
	}
}

// pair starts a primary and its replica.
func pair(t *testing.T) (primary, replica *redistest.Server) {
	t.Helper()
	primary = serve(t, "--repl-diskless-sync-delay", "0")
	replica = serve(t, rig.ReplicaArgs(primary.Addr)...)
	rig.Follow(t, replica)
	return primary, replica
}

func TestFault48AProxyThatSplitsReadsCostsTimeOnly(t *testing.T) {
	begin(t)
	primary, replica := pair(t)
	p := redistest.NewProxy(t, primary.Addr)
	p.Split(replica.Addr)
	gs := make([]*guard.Guard, 4)
	for i := range gs {
		gs[i] = on(t, p.Addr, guard.WithTTL(rushTTL), guard.WithMaxWait(long),
			guard.WithBackoff(time.Millisecond, 20*time.Millisecond))
		warm(t, gs[i])
	}
	if found, err := gs[0].Findings(t.Context()); err != nil || !strings.Contains(fmt.Sprint(found), "SUBSCRIBE") {
		t.Errorf("Findings: %v, %v, want them to name what the proxy does", found, err)
	}
	r := startRush(t, gs...)
	r.await(t, testsize.Pick(1000, 200))
	r.oneAtATime(t)
	keeps(t, "%d sections of %d processes: one at a time; `Check` says that subscriptions are elsewhere",
		r.sections, len(gs))
}

func TestFault49AFailoverBehindAnAddressLetsNobodyElseIn(t *testing.T) {
	begin(t)
	primary, replica := pair(t)
	var ways []*rig.Route
	var gs []*guard.Guard
	for range 4 {
		way, rdb := rig.NewRoute(t, primary.Addr)
		g := newGuard(t, rdb, guard.WithTTL(rushTTL), guard.WithMaxWait(long),
			guard.WithBackoff(time.Millisecond, 20*time.Millisecond))
		warm(t, g)
		ways, gs = append(ways, way), append(gs, g)
	}
	r := startRush(t, gs...)
	rounds := testsize.Pick(30, 4)
	for range rounds {
		handsOver(t, primary, replica)
		for _, way := range ways {
			way.To(replica.Addr) // what was connected stays, subscriptions among them
		}
		r.await(t, 50)
		primary, replica = replica, primary
	}
	r.oneAtATime(t)
	keeps(t, "%d `FAILOVER` in %d sections, with subscriptions left at the old primary: one at a time", rounds,
		r.sections)
}

// handsOver makes replica the primary, without a write that is lost.
func handsOver(t *testing.T, primary, replica *redistest.Server) {
	t.Helper()
	rig.Follow(t, replica)
	host, port, _ := net.SplitHostPort(replica.Addr)
	old, next := redistest.Client(t, primary.Addr), redistest.Client(t, replica.Addr)
	testguard.Eventually(t, "a failover begins", func() bool {
		return old.Do(t.Context(), "failover", "to", host, port).Err() == nil
	})
	testguard.Eventually(t, "the replica is promoted", func() bool {
		role, _ := next.Do(t.Context(), "role").Slice()
		return len(role) > 0 && role[0] == "master"
	})
}

func TestFault50APrimaryThatSentinelsReplaceIsLeftByAll(t *testing.T) {
	begin(t)
	s := redistest.StartSentinel(t)
	gs := make([]*guard.Guard, 6)
	for i := range gs {
		gs[i] = newGuardOn(t, redislocker.New(nil, redislocker.WithSentinel(&redis.FailoverOptions{
			MasterName: redisproc.SentinelName, SentinelAddrs: s.Addrs(),
		})), guard.WithTTL(rushTTL), guard.WithMaxWait(long))
		warm(t, gs[i])
		time.Sleep(25 * time.Millisecond) // each asks the sentinels at its own time
	}
	r := startRush(t, gs...)
	rounds := testsize.Pick(6, 1)
	for range rounds {
		if err := s.Failover(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // in which all leave the old primary
		r.await(t, 50)
	}
	r.oneAtATime(t)
	keeps(t, "%d `SENTINEL FAILOVER` in %d sections: one at a time; no section for %v at most", rounds, r.sections,
		r.idle.Round(time.Millisecond))
}

func TestFault51AFailoverOfAClusterLetsNobodyElseIn(t *testing.T) {
	begin(t)
	c := startCluster(t, true)
	var gs []*guard.Guard
	for range 4 {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
		t.Cleanup(func() { _ = rdb.Close() })
		g := newGuard(t, rdb, guard.WithTTL(rushTTL), guard.WithMaxWait(long))
		warm(t, g)
		gs = append(gs, g)
	}
	slot, err := c.Slot(lock(key))
	if err != nil {
		t.Fatal(err)
	}
	r := startRush(t, gs...)
	rounds := testsize.Pick(10, 2)
	for range rounds {
		if err := c.Failover(slot, ""); err != nil {
			t.Fatal(err)
		}
		r.await(t, 50)
		testguard.Eventually(t, "the old primary follows", func() bool {
			primary, err := c.Primary(slot)
			if err == nil {
				_, err = c.Replica(primary)
			}
			return err == nil
		})
	}
	r.oneAtATime(t)
	keeps(t, "%d `CLUSTER FAILOVER` in %d sections: one at a time", rounds, r.sections)
}
