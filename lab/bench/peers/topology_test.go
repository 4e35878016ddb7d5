package peers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

func peerMove(t *testing.T, lib *libs.Library) result {
	t.Helper()
	if !lib.Offers(libs.Cluster) {
		return result{none, "not made for a cluster"}
	}
	c, err := redistest.Lab(t).StartCluster(false)
	must(t, err)
	l := peer(t, lib, libs.Setup{Topology: libs.Cluster, Addrs: c.Addrs(), TTL: 2 * time.Second})
	warmUp(t, l)
	slot, err := c.Slot(lib.Keys(key)[0])
	must(t, err)
	moving, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	calls, failed := 0, 0
	var last error
	wg.Go(func() { // ends with stop
		for moving.Err() == nil {
			calls++
			held, err := l.Acquire(t.Context(), key, 5*time.Second)
			if err == nil {
				time.Sleep(time.Millisecond)
				err = held.Release(t.Context())
			}
			if err != nil {
				failed++
				last = err
			}
		}
	})
	moves := 0
	for _, to := range []int{1, 2, 0, 1} {
		if from, err := c.Primary(slot); err != nil || from == c.Nodes[to] ||
			c.Migrate(slot, c.Nodes[to], 300*time.Millisecond) != nil {
			continue
		}
		moves++
	}
	stop()
	wg.Wait()
	why := ""
	if last != nil {
		why = ", the last with " + brief(last)
	}
	return result{kept(failed == 0), fmt.Sprintf("%d of %d calls failed while the slot moved %d times%s",
		failed, calls, moves, why)}
}

func peerLostFailover(t *testing.T, lib *libs.Library) result {
	t.Helper()
	const ttl = 3 * time.Second
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	link := redistest.NewProxy(t, primary.Addr)
	replica := redistest.Start(t, rig.ReplicaArgs(link.Addr)...)
	rig.Follow(t, replica)
	way, _ := rig.NewRoute(t, primary.Addr)
	a := peer(t, lib, libs.Setup{Addrs: []string{primary.Addr}, TTL: ttl, Dial: way.Dial})
	warmUp(t, a)
	link.DropDown(true)
	held := take(t, a, key)
	primary.Kill()
	promoted := redistest.Client(t, replica.Addr)
	command(t, promoted, "replicaof", "no", "one")
	way.To(replica.Addr)
	start := time.Now()
	next := take(t, peerOn(t, lib, replica.Addr, ttl), key)
	was := told(held, 10*time.Second)
	d := time.Since(start)
	_ = held.Release(t.Context())
	_ = next.Release(t.Context())
	if !was {
		return result{no, "not told within 10 s (TTL 3 s), and there is no token"}
	}
	return result{parts, fmt.Sprintf("told %v later (TTL 3 s), but there is no token for the resource", round(d))}
}

func peerSentinel(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s, err := redistest.Lab(t).StartSentinel()
	if err != nil {
		t.Fatal(err)
	}
	l := peer(t, lib, libs.Setup{Topology: libs.Sentinel, Addrs: s.Addrs(), Master: "mymaster", TTL: 3 * time.Second})
	warmUp(t, l)
	old, err := s.Primary()
	if err != nil {
		t.Fatal(err)
	}
	old.Kill()
	killed := time.Now()
	if err := s.AwaitOther(old); err != nil {
		t.Fatal(err)
	}
	return firstGrant(t, l, killed)
}

func peerCluster(t *testing.T, lib *libs.Library) result {
	t.Helper()
	c, err := redistest.Lab(t).StartCluster(true)
	must(t, err)
	l := peer(t, lib, libs.Setup{Topology: libs.Cluster, Addrs: c.Addrs(), TTL: 3 * time.Second})
	warmUp(t, l)
	slot, err := c.Slot(lib.Keys(key)[0])
	must(t, err)
	old, err := c.Primary(slot)
	if err != nil {
		t.Fatal(err)
	}
	_ = take(t, l, key).Release(t.Context())
	time.Sleep(time.Second) // the release has arrived
	old.Kill()
	killed := time.Now()
	if err := c.AwaitOther(slot, old); err != nil {
		t.Fatal(err)
	}
	return firstGrant(t, l, killed)
}

// firstGrant tries until there is a grant.
func firstGrant(t *testing.T, l libs.Locker, killed time.Time) result {
	t.Helper()
	elected := time.Since(killed)
	failed := 0
	for time.Since(killed) < 70*time.Second {
		held, err := l.Acquire(t.Context(), key, time.Second)
		if err == nil {
			d := time.Since(killed)
			_ = held.Release(t.Context())
			return result{
				kept(d < elected+5*time.Second+rig.Slow),
				fmt.Sprintf("the first grant %v after the primary was killed, after %d failed calls; %v to agree",
					round(d), failed, round(elected)),
			}
		}
		failed++
	}
	return result{no, "no grant within 70 s"}
}

func peerRestart(t *testing.T, lib *libs.Library) result {
	t.Helper()
	const ttl = 3 * time.Second
	s := redistest.Start(t)
	held := take(t, peerOn(t, lib, s.Addr, ttl), key)
	s.Restart()
	start := time.Now()
	was := told(held, 10*time.Second)
	d := time.Since(start)
	back := locked(t, redis.NewClient(&redis.Options{Addr: s.Addr}), lib, key)
	_ = held.Release(t.Context())
	switch {
	case back:
		return result{no, "without its data: the holder makes its key again, whoever may have had it meanwhile"}
	case !was:
		return result{no, "without its data: not told within 10 s"}
	}
	return result{parts, fmt.Sprintf("without its data: told after %v; there is no token", round(d))}
}
