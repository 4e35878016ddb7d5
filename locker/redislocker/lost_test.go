package redislocker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// failing are servers whose primary of key "k" can be killed.
type failing struct {
	open      func() *redislocker.Locker
	primary   func() (*redisproc.Server, error)
	followers func(primary *redisproc.Server) ([]*redisproc.Server, error)
	await     func(old *redisproc.Server) error // for another primary
}

func failingSentinel(t *testing.T) failing {
	t.Helper()
	s := redistest.StartSentinel(t)
	return failing{
		func() *redislocker.Locker { return redislocker.New(nil, redislocker.WithSentinel(sentinelOptions(s))) },
		s.Primary,
		func(primary *redisproc.Server) (all []*redisproc.Server, err error) {
			for _, n := range s.Nodes {
				if n != primary {
					all = append(all, n)
				}
			}
			return all, nil
		},
		s.AwaitOther,
	}
}

func failingCluster(t *testing.T) failing {
	t.Helper()
	c := redistest.StartReplicatedCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = rdb.Close() })
	slot, err := c.Slot("k")
	if err != nil {
		t.Fatal(err)
	}
	return failing{
		func() *redislocker.Locker { return redislocker.New(rdb) },
		func() (*redisproc.Server, error) { return c.Primary(slot) },
		func(primary *redisproc.Server) ([]*redisproc.Server, error) {
			replica, err := c.Replica(primary)
			return []*redisproc.Server{replica}, err
		},
		func(old *redisproc.Server) error { return c.AwaitOther(slot, old) },
	}
}

// A release is lost if nobody follows the primary any more that takes it. The
// key does not wait for its TTL all the same.
func TestAReleaseThatAFailoverLosesComesAgain(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) failing{
		"Sentinel": failingSentinel, "Cluster": failingCluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			ttl := guard.WithTTL(10 * testguard.Patience)
			g, other := testguard.Patient(t, s.open(), ttl), testguard.Patient(t, s.open(), ttl)
			lease, err := g.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			old, err := s.primary()
			if err != nil {
				t.Fatal(err)
			}
			followers, err := s.followers(old)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range followers {
				testguard.Eventually(t, "the replica has the key", func() bool {
					n, _ := f.Do(t.Context(), "dbsize").Int()
					return n > 0
				})
				// A link that is made anew is refused.
				_ = f.Do(t.Context(), "config", "set", "masteruser", "nobody", "masterauth", "x")
			}
			if err := old.Do(t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			old.Kill()
			if err := s.await(old); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			next, err := other.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("the key is free %v after there is a new primary", time.Since(began))
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
