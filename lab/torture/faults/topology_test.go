package faults

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
)

// Replicas that take over, and slots that move.

func TestFault05ASlotThatMovesCostsNoCall(t *testing.T) {
	begin(t)
	c := startCluster(t, false)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = rdb.Close() })
	g := newGuard(t, rdb, guard.WithTTL(6*time.Second), guard.WithFencing(), guard.WithMaxWait(long))
	other := newGuard(t, rdb, guard.WithTTL(6*time.Second), guard.WithFencing(), guard.WithMaxWait(long))
	const braces = "a{b}c}{"
	for _, k := range []string{key, braces} {
		mustRelease(t, acquire(t, g, k))
	}
	slot, err := c.Slot(lock(key))
	if err != nil {
		t.Fatal(err)
	}

	held := acquire(t, g, key+"{"+key+"}") // hashed elsewhere: braces of a key are escaped
	var wg sync.WaitGroup
	var inside, calls atomic.Int64
	moving, stop := context.WithCancel(t.Context())
	for _, g := range []*guard.Guard{g, g, other, other} {
		wg.Go(func() {
			var last uint64
			for moving.Err() == nil {
				start := time.Now() // a stop of a second costs a lease that was handed over
				err := g.Do(t.Context(), key, func(ctx context.Context) error {
					if inside.Add(1) != 1 && steady(t, start) {
						t.Error("two at once")
					}
					defer inside.Add(-1)
					n, err := guard.FencingToken(ctx)
					if n <= last {
						t.Errorf("token %d after %d", n, last)
					}
					last = n
					time.Sleep(time.Millisecond)
					return err
				})
				if err != nil && (!errors.Is(err, guard.ErrLeaseLost) || steady(t, start)) {
					t.Errorf("Do: %v", err)
				}
				calls.Add(1)
			}
		})
	}
	moves := 0
	for _, to := range []int{1, 2, 0, 1} {
		if from, err := c.Primary(slot); err != nil || from == c.Nodes[to] {
			continue
		}
		if err := c.Migrate(slot, c.Nodes[to], 300*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		moves++
	}
	stop()
	wg.Wait()
	mustRelease(t, held)
	if moves < 2 || calls.Load() < 20 {
		t.Errorf("%d calls, %d moves: too few to say", calls.Load(), moves)
	}
	keeps(t, "%d calls while the slot moved %d times: no error, one at a time, tokens rise", calls.Load(), moves)
}

// startCluster starts a cluster whose nodes are checked in the end.
func startCluster(t *testing.T, replicas bool) *redisproc.Cluster {
	t.Helper()
	c, err := redistest.Lab(t).StartCluster(replicas)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// follower starts a replica of s behind a network, and waits until it follows.
func follower(t *testing.T, s *redistest.Server) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	p := redistest.NewProxy(t, s.Addr)
	r := serve(t, rig.ReplicaArgs(p.Addr)...)
	rig.Follow(t, r)
	return r, p
}

func TestFault08ALostFailoverIsNoticedAndTokensRise(t *testing.T) {
	begin(t)
	const ttl = 5 * time.Second
	primary := serve(t, "--repl-diskless-sync-delay", "0")
	replica, link := follower(t, primary)
	way, rdb := rig.NewRoute(t, primary.Addr)
	a := newGuard(t, rdb, guard.WithTTL(ttl), guard.WithFencing())
	warm(t, a)
	link.DropDown(true) // nothing is replicated any more
	var last uint64
	for range 3 {
		l := acquire(t, a, key)
		last = token(t, l)
		mustRelease(t, l)
	}
	l := acquire(t, a, key)
	last = max(last, token(t, l))

	primary.Kill()
	command(t, redistest.Client(t, replica.Addr), "replicaof", "no", "one")
	way.To(replica.Addr)
	failed := time.Now()
	b := on(t, replica.Addr, guard.WithTTL(ttl), guard.WithFencing())
	next := acquire(t, b, key) // no other holder can prevent that
	if n := token(t, next); n <= last {
		t.Errorf("token %d, and the one before had %d", n, last)
	}
	lost(t, l, long)
	d := took(t, "to notice", failed, ttl+slow)
	_ = l.Release(t.Context())
	if next.Err() != nil || !has(t, redistest.Client(t, replica.Addr), key) {
		t.Error("the first has released the key of the second")
	}
	mustRelease(t, next)
	keeps(t, "the second holder's token is higher; the first was told %v after the failover (TTL %v)", d, ttl)
}

func TestFault09ASentinelFailoverIsGotOver(t *testing.T) {
	begin(t)
	s, err := redistest.Lab(t).StartSentinel()
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redisproc.SentinelName, SentinelAddrs: s.Addrs()})
	t.Cleanup(func() { _ = rdb.Close() })
	g := newGuard(t, rdb, guard.WithTTL(3*time.Second), guard.WithMaxWait(long))
	warm(t, g)
	old, err := s.Primary()
	if err != nil {
		t.Fatal(err)
	}
	old.Kill()
	killed := time.Now()
	if err := s.AwaitOther(old); err != nil {
		t.Fatal(err)
	}
	elected := time.Since(killed)
	mustRelease(t, acquire(t, g, key))
	d := took(t, "the first grant", killed, elected+5*time.Second+slow)
	keeps(t, "the first grant %v after the primary was killed; the sentinels took %v to agree", d,
		elected.Round(time.Millisecond))
}

func TestFault10AClusterWithoutAPrimaryIsGotOver(t *testing.T) {
	begin(t)
	c := startCluster(t, true)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = rdb.Close() })
	g := newGuard(t, rdb, guard.WithTTL(3*time.Second), guard.WithMaxWait(long))
	warm(t, g)
	mustRelease(t, acquire(t, g, key))
	slot, err := c.Slot(lock(key))
	if err != nil {
		t.Fatal(err)
	}
	old, err := c.Primary(slot)
	if err != nil {
		t.Fatal(err)
	}
	old.Kill()
	killed := time.Now()
	if err := c.AwaitOther(slot, old); err != nil {
		t.Fatal(err)
	}
	elected := time.Since(killed)
	mustRelease(t, acquire(t, g, key))
	d := took(t, "the first grant", killed, elected+5*time.Second+slow)
	keeps(t, "the first grant %v after the primary was killed; the cluster took %v to agree", d,
		elected.Round(time.Millisecond))
}
