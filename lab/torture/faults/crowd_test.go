package faults

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
)

// Many waiters at once.

func TestFault26AHerdIsOneContenderPerProcess(t *testing.T) {
	begin(t)
	n := newNetwork(t)
	const processes, waiters = 10, 200
	var held, grants, turns atomic.Int64
	gs := make([]*guard.Guard, processes)
	for i := range gs {
		gs[i] = on(t, n.server.Addr, guard.WithTTL(long), guard.WithMaxWait(time.Minute), guard.WithMaxWaiters(0),
			guard.WithObserver(&counting{grants: &grants}))
		warm(t, gs[i])
	}
	l := acquire(t, gs[0], key)
	grants.Store(0)
	var wg sync.WaitGroup
	for _, g := range gs {
		for range waiters {
			wg.Go(func() {
				err := g.Do(t.Context(), key, func(context.Context) error {
					if held.Add(1) != 1 {
						t.Error("two at once")
					}
					turns.Add(1)
					held.Add(-1)
					return nil
				})
				if err != nil {
					t.Errorf("Do: %v", err)
				}
			})
		}
	}
	testguard.Eventually(t, "all processes wait", func() bool {
		return n.direct.ZCard(t.Context(), lock(key)+":wait").Val() == processes-1
	})
	n.direct.ConfigResetStat(t.Context())
	start := time.Now()
	mustRelease(t, l)
	wg.Wait()
	calls := evals(t, n.direct)
	most := 3*grants.Load() + processes*int64(8*time.Since(start).Seconds()+10) // and the looks of all
	if turns.Load() != processes*waiters || calls > most {
		t.Errorf("%d turns in %d grants cost %d requests, want %d turns and at most %d",
			turns.Load(), grants.Load(), calls,
			processes*waiters, most)
	}
	keeps(t, "%d processes with %d waiters each: %d turns in %d grants and %d requests", processes,
		waiters, turns.Load(),
		grants.Load(), calls)
}

// counting counts the turns that did not come from another call of the process.
type counting struct {
	guard.NopObserver
	grants *atomic.Int64
}

func (c *counting) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) {
	if r.Err == nil && !r.Handoff {
		c.grants.Add(1)
	}
}

var evalCalls = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// evals returns the number of scripts that the server has run since its
// counters were reset.
func evals(t *testing.T, rdb *redis.Client) (n int64) {
	t.Helper()
	stats := rdb.Info(t.Context(), "commandstats").Val()
	for _, m := range evalCalls.FindAllStringSubmatch(stats, -1) {
		calls, _ := strconv.ParseInt(m[1], 10, 64)
		n += calls
	}
	return n
}

func TestFault31AnExhaustedPoolCostsNoLease(t *testing.T) {
	begin(t)
	s := serve(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	var renewals renewed
	g := newGuard(t, rdb, guard.WithTTL(5*time.Second), guard.WithMaxWaiters(0), guard.WithMaxWait(time.Minute),
		guard.WithObserver(&renewals))
	other := on(t, s.Addr, guard.WithMaxWait(long))
	busy, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { // ends with stop
			for busy.Err() == nil {
				rdb.BLPop(busy, time.Second, "nothing")
			}
		})
	}
	l := acquire(t, g, key)
	waiting, leave := context.WithCancel(t.Context())
	for range 1000 {
		wg.Go(func() {
			if err := g.Do(waiting, key, nop); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Do: %v", err)
			}
		})
	}
	renewals.await(t, l, "an exhausted pool")
	leave()
	mustRelease(t, l)
	mustRelease(t, acquire(t, other, key))
	stop()
	wg.Wait()
	keeps(t, "leases have connections of their own: renewed and released beside a client of one busy connection "+
		"and 1,000 waiters")
}
