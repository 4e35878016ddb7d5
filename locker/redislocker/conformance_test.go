package redislocker_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The suite gives each check a new store. This is a server of its own in
// memory, or a database of its own on a real server.

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
	addr := redistest.Start(t, "--databases", "1000").Addr
	db := 0
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		db++
		return onDatabase(t, addr, db-1)
	})
}

// The scripts mean the same in each Lua that a server may have, and use no
// global that one lacks.
func TestScriptsRunInEachLua(t *testing.T) {
	for _, program := range testsize.Pick([]string{"lua5.1", "lua5.4"}, []string{"lua5.4"}) {
		t.Run(program, func(t *testing.T) {
			t.Parallel() // it mostly waits
			s := redistest.Start(t, "--databases", "1000")
			addr := redistest.StartDialect(t, s.Addr, redistest.Dialect{Lua: program})
			db := 0
			lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
				t.Helper()
				db++
				return onDatabase(t, addr, db-1)
			})
		})
	}
}

// The server hangs. It has received its requests, and carries them out when it
// goes on.
func TestConformanceWhileTheServerHangs(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Start(t, "--databases", "1000")
	db := 0
	lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		t.Helper()
		a, b = onDatabase(t, s.Addr, db)
		db++
		return a, b, func() (mend func()) {
			s.Stop()
			return s.Cont
		}
	})
}

// Answers get lost. The server carries out its requests, and nobody hears of
// it.
func TestConformanceWhileAnswersGetLost(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Start(t, "--databases", "1000")
	db := 0
	lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		t.Helper()
		proxy := redistest.NewProxy(t, s.Addr)
		a, b = onDatabase(t, proxy.Addr, db)
		db++
		return a, b, func() (mend func()) {
			proxy.DropDown(true)
			return func() {
				proxy.DropDown(false)
				proxy.CutAll()
			}
		}
	})
}

func onDatabase(t *testing.T, addr string, db int) (a, b locker.Locker) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DB: db})
	t.Cleanup(func() { _ = rdb.Close() })
	return redislocker.New(rdb), redislocker.New(rdb)
}
