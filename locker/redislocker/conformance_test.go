package redislocker_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// newPair gives each check of the suite a new store: a server of its own in
// memory, or a database or a prefix of its own on real servers.
type newPair = func(t *testing.T) (a, b locker.Locker)

func TestConformanceInVirtualTime(t *testing.T) {
	t.Parallel()
	lockertest.RunVirtual(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		_, rdb := redistest.Miniredis(t)
		return redislocker.New(rdb), redislocker.New(rdb)
	})
}

// The short form has one server.
func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits
	kinds := []struct {
		name  string
		start func(t *testing.T) newPair
	}{
		{"one server", onOneServer},
		{"cluster", onACluster},
		{"Sentinel", underSentinel},
		{"replicas", withReplicas},
	}
	for _, kind := range kinds[:testsize.Pick(len(kinds), 1)] {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			lockertest.Run(t, kind.start(t))
		})
	}
}

func onOneServer(t *testing.T) newPair {
	t.Helper()
	return onDatabases(redistest.Start(t, "--databases", "1000").Addr)
}

// onDatabases makes pairs on databases of their own of the server at addr.
func onDatabases(addr string) newPair {
	var next atomic.Int64
	return func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		return onDatabase(t, addr, int(next.Add(1))-1)
	}
}

func onDatabase(t *testing.T, addr string, db int) (a, b locker.Locker) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DB: db})
	t.Cleanup(func() { _ = rdb.Close() })
	return redislocker.New(rdb), redislocker.New(rdb)
}

func onACluster(t *testing.T) newPair {
	t.Helper()
	nodes := redistest.StartCluster(t)
	return prefixed(func(t *testing.T, prefix redislocker.Option) (a, b locker.Locker) {
		t.Helper()
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
		t.Cleanup(func() { _ = rdb.Close() })
		return redislocker.New(rdb, prefix), redislocker.New(rdb, prefix)
	})
}

// underSentinel has one locker that hears of failovers. The other has only the
// news that a Sentinel client gives it.
func underSentinel(t *testing.T) newPair {
	t.Helper()
	s := redistest.StartSentinel(t)
	rdb := redis.NewFailoverClient(sentinelOptions(s))
	t.Cleanup(func() { _ = rdb.Close() })
	return prefixed(func(_ *testing.T, prefix redislocker.Option) (a, b locker.Locker) {
		return redislocker.New(rdb, prefix), redislocker.New(nil, prefix, redislocker.WithSentinel(sentinelOptions(s)))
	})
}

func withReplicas(t *testing.T) newPair {
	t.Helper()
	primary, _ := replicated(t)
	rdb := redistest.Client(t, primary.Addr)
	return prefixed(func(_ *testing.T, prefix redislocker.Option) (a, b locker.Locker) {
		made := func() locker.Locker { return redislocker.New(rdb, prefix, redislocker.WithReplicas(1, replicaTime)) }
		return made(), made()
	})
}

// prefixed gives each pair a prefix of its own.
func prefixed(pair func(t *testing.T, prefix redislocker.Option) (a, b locker.Locker)) newPair {
	var next atomic.Int64
	return func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		return pair(t, redislocker.WithPrefix(fmt.Sprint("check", next.Add(1))))
	}
}

// The scripts mean the same in each Lua that a server may have, and use no
// global that one lacks. The interpreter is a process of its own, during whose
// work no time passes.
func TestScriptsRunInEachLua(t *testing.T) {
	t.Parallel()
	for _, program := range testsize.Pick([]string{"lua5.1", "lua5.4"}, nil) {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			lockertest.RunVirtual(t, func(t *testing.T) (a, b locker.Locker) {
				t.Helper()
				rdb := redistest.MiniredisDialect(t, redistest.Dialect{Lua: program})
				return redislocker.New(rdb), redislocker.New(rdb)
			})
		})
	}
}

// The server hangs. It has received its requests, and carries them out when it
// goes on.
func TestConformanceWhileTheServerHangs(t *testing.T) {
	t.Parallel() // it mostly waits
	lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		t.Helper()
		s := redistest.Start(t)
		a, b = onDatabase(t, s.Addr, 0)
		return a, b, func() (mend func()) {
			s.Stop()
			return s.Cont
		}
	}, lockertest.AtOnce(8))
}

// Answers get lost. The server carries out its requests, and nobody hears of
// it.
func TestConformanceWhileAnswersGetLost(t *testing.T) {
	t.Parallel() // it mostly waits
	lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		t.Helper()
		proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
		a, b = onDatabase(t, proxy.Addr, 0)
		return a, b, func() (mend func()) {
			proxy.DropDown(true)
			return func() {
				proxy.DropDown(false)
				proxy.CutAll()
			}
		}
	}, lockertest.AtOnce(8))
}
