package redislocker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// woken reports whether a message told the waiter that it has the key, after
// the other locker's release.
func woken(t *testing.T, holder, waiter *redislocker.Locker, ear *ear) bool {
	t.Helper()
	first, second := claim("k"), claim("k")
	if a, err := holder.Acquire(within(t, time.Second), first, locker.Try{}); err != nil || !a.Acquired {
		_, _ = holder.Release(t.Context(), first, locker.End{Queued: true})
		return false
	}
	defer func() { _, _ = waiter.Release(t.Context(), second, locker.End{Queued: true}) }()
	if a, err := waiter.Acquire(within(t, time.Second), second, locker.Try{Wait: true}); err != nil || !a.Queued {
		_, _ = holder.Release(t.Context(), first, locker.End{Queued: true})
		return false
	}
	if _, err := holder.Release(within(t, time.Second), first, locker.End{}); err != nil {
		return false
	}
	silence := time.After(50 * time.Millisecond) // the next round asks again
	for {
		select {
		case got := <-ear.heard:
			if got.what == "granted" && got.owner == second.Owner {
				return true
			}
		case <-silence:
			return false
		}
	}
}

// wokenSoon wants a wake-up before end reports true.
func wokenSoon(t *testing.T, holder, waiter *redislocker.Locker, ear *ear, end func() bool) {
	t.Helper()
	for soon := false; !soon; {
		if soon = woken(t, holder, waiter, ear); end() {
			t.Fatal("no wake-up, or too late")
		}
	}
}

// patience reports from then on that a test has waited long enough.
func patience() func() bool {
	end := time.Now().Add(ttl / 2)
	return func() bool { return time.Now().After(end) }
}

// Before the old primary follows, it takes subscriptions whose messages lead
// nowhere. That lasts for some 10 s.
func TestWakeUpsComeFromTheNewPrimaryAfterSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	watched := redislocker.WithSentinel(sentinelOptions(s))
	ear := newEar()
	holder, waiter := open(t, nil, watched), openFor(t, ear, nil, watched)
	wokenSoon(t, holder, waiter, ear, patience())
	old, err := s.Primary()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Failover(); err != nil {
		t.Fatal(err)
	}
	wokenSoon(t, holder, waiter, ear, func() bool { // before the old primary follows
		info, err := old.Do(t.Context(), "info", "replication").Text()
		return err == nil && strings.Contains(info, "role:slave")
	})
}

// The subscription may be with any node. Messages travel between the nodes,
// even from a slot's new node.
func TestWakeUpsCrossTheNodesOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartReplicatedCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	defer func() { _ = rdb.Close() }()
	ear := newEar()
	holder, waiter := open(t, rdb), openFor(t, ear, rdb)
	wokenSoon(t, holder, waiter, ear, patience())
	slot, err := cluster.Slot("k")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate(cluster, slot); err != nil {
		t.Fatal(err)
	}
	wokenSoon(t, holder, waiter, ear, patience())
	if err := cluster.Failover(slot, "FORCE"); err != nil {
		t.Fatal(err)
	}
	wokenSoon(t, holder, waiter, ear, patience())
	eventually(t, "the demoted node follows", func() bool {
		primary, err := cluster.Primary(slot)
		if err == nil {
			_, err = cluster.Replica(primary)
		}
		return err == nil
	})
	if err := killOwner(cluster, slot); err != nil {
		t.Fatal(err)
	}
	wokenSoon(t, holder, waiter, ear, patience())
}

func migrate(c *redisproc.Cluster, slot int) error {
	const another = 16384 / 3 // slots further on
	to, err := c.Primary((slot + another) % 16384)
	if err != nil {
		return err
	}
	return c.Migrate(slot, to, time.Second)
}

func killOwner(c *redisproc.Cluster, slot int) error {
	old, err := c.Primary(slot)
	if err != nil {
		return err
	}
	old.Kill()
	return c.AwaitOther(slot, old)
}
