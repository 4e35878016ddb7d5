package redlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/redlock"
)

// forSuite makes a locker whose nodes count at once, and may be slow: the suite does not depend on the machine.
func forSuite(nodes []redis.UniversalClient) locker.Locker {
	return redlock.New(nodes, redlock.WithHoldOut(0), redlock.WithNodeLimit(5*time.Second))
}

func TestConformanceInVirtualTime(t *testing.T) {
	lockertest.RunVirtual(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		nodes := make([]redis.UniversalClient, 3)
		for i := range nodes {
			_, nodes[i] = redistest.Miniredis(t)
		}
		return forSuite(nodes), forSuite(nodes)
	})
}

func TestConformance(t *testing.T) {
	servers := redistest.StartN(t, 3, "--databases", "100")
	db := 0
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		nodes := make([]redis.UniversalClient, len(servers))
		for i, s := range servers {
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr, DB: db})
			t.Cleanup(func() { _ = rdb.Close() })
			nodes[i] = rdb
		}
		db++
		return forSuite(nodes), forSuite(nodes)
	})
}
