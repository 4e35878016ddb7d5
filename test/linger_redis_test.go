package guard_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// settles calls Do until the key is idle. The first calls open the inbox.
func settles(t *testing.T, g *guard.Guard) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		ok(t, g.Do(t.Context(), key, nop))
		switch {
		case idle(t, g):
			return
		case time.Now().After(end):
			t.Fatal("the key is never idle")
		}
		time.Sleep(time.Millisecond)
	}
}

// An idle key costs its process no request, and another process few. A request
// is what the store sees, whoever sends it; those of a take-over follow each
// other.
func TestLinger_AnIdleKeyInRedisCostsNoRequest(t *testing.T) {
	t.Parallel() // it mostly waits
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	g, other := onRedis(t, p.Addr, guard.WithLinger(time.Second)), onRedis(t, p.Addr)
	ok(t, other.Do(t.Context(), "warm", nop))
	settles(t, g)
	if err := other.Do(t.Context(), key, nop); err != nil { // opens the inbox
		t.Fatal(err)
	}
	for name, take := range map[string]func() (ran bool, err error){
		"Do":    func() (bool, error) { return true, other.Do(t.Context(), key, nop) },
		"TryDo": func() (bool, error) { return other.TryDo(t.Context(), key, nop) },
	} {
		for end := time.Now().Add(time.Minute); ; { // on a busy machine the tenure may end, or its owner be late
			settles(t, g)
			p.Reset()
			for range 100 {
				ok(t, g.Do(t.Context(), key, nop))
			}
			n := p.RoundTrips()
			p.Reset()
			ran, err := take()
			ok(t, err)
			if n == 0 && ran && lockCommands(p) <= 6 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("%d requests of 100 calls; then %s ran: %v, with %v", n, name, ran, p.Commands())
			}
		}
		t.Log(name, p.RoundTrips(), p.Commands())
		time.Sleep(1100 * time.Millisecond) // the key may linger again
	}
}

// Idle keys pass between processes under Sentinel and in a cluster too.
func TestLinger_OnSentinelAndCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	s, nodes := redistest.StartSentinel(t), redistest.StartCluster(t)
	for name, open := range map[string]func() guard.Locker{
		"sentinel": func() guard.Locker {
			return redislocker.New(nil, redislocker.WithSentinel(&redis.FailoverOptions{
				MasterName: redisproc.SentinelName, SentinelAddrs: s.Addrs(),
			}))
		},
		"cluster": func() guard.Locker {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
			t.Cleanup(func() { _ = rdb.Close() })
			return redislocker.New(rdb)
		},
	} {
		g := newGuard(t, open(), guard.WithLinger(2500*time.Millisecond), guard.WithTTL(time.Minute))
		other := newGuard(t, open())
		settles(t, g)
		ok(t, other.Do(t.Context(), key, nop)) // connects, and opens the inbox
		for end, ran := time.Now().Add(time.Minute), false; !ran; {
			settles(t, g)
			for !ran && idle(t, g) { // a busy machine takes longer than TryDo waits
				var err error
				ran, err = other.TryDo(t.Context(), key, nop)
				ok(t, err)
			}
			if time.Now().After(end) {
				t.Fatalf("%s: TryDo never gets a key while it is idle", name)
			}
		}
	}
}

// Close leaves none of many idle keys behind.
func TestClose_FreesManyIdleKeysInRedis(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	rdb := redistest.Client(t, server.Addr)
	g := onRedis(t, server.Addr, guard.WithLinger(2500*time.Millisecond), guard.WithTTL(time.Minute))
	settles(t, g)
	keys, taken := testsize.Pick(4000, 1000), atomic.Int64{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { // ends when all keys were taken four times
			for n := taken.Add(1); n <= int64(4*keys); n = taken.Add(1) {
				if err := g.Do(t.Context(), guard.Key("k", n%int64(keys)), nop); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	many := 0
	for _, s := range g.Snapshot(false) {
		for _, h := range s.Holds {
			if h.Idle {
				many++
			}
		}
	}
	start := time.Now()
	ok(t, g.Close(t.Context()))
	t.Logf("%d keys were idle, and Close took %v", many, time.Since(start))
	if left := must(rdb.Keys(t.Context(), "guard:*").Result()); many == 0 || len(left) > 0 {
		t.Errorf("%d keys were idle, and %d are left", many, len(left))
	}
}
