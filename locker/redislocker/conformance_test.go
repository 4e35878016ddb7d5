package redislocker_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The suite gives each check a new store: a server of its own in memory, or a database of its own on a real one.

func TestConformanceInVirtualTime(t *testing.T) {
	t.Parallel()
	lockertest.RunVirtual(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		_, rdb := redistest.Miniredis(t)
		return redislocker.New(rdb), redislocker.New(rdb)
	})
}

func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits
	addr := redistest.Start(t, "--databases", "100").Addr
	db := 0
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		rdb := redis.NewClient(&redis.Options{Addr: addr, DB: db})
		t.Cleanup(func() { _ = rdb.Close() })
		db++
		return redislocker.New(rdb), redislocker.New(rdb)
	})
}
