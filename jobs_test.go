package guard_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// Two schedulers start the same job at every tick. Their clocks are up to 100
// ms apart, and each is ahead at times. With MinHold each tick runs once.
// Without MinHold it does not.
func TestTryDo_EachTickRunsOnceWhereClocksDiffer(t *testing.T) {
	const ticks, every, apart = 1000, time.Second, 100 * time.Millisecond
	run := func(t *testing.T, minHold time.Duration) (runs, most int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, guard.WithMinHold(minHold))
			var mu sync.Mutex
			ran := make([]int, ticks)
			scheduler := func(g *guard.Guard, ahead func() time.Duration) {
				start := time.Now()
				for tick := range ticks {
					time.Sleep(time.Until(start.Add(time.Duration(tick+1)*every - ahead())))
					_, err := g.TryDo(t.Context(), key, func(context.Context) error {
						mu.Lock()
						ran[tick]++
						mu.Unlock()
						time.Sleep(rand.N(20 * time.Millisecond))
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
			var wg sync.WaitGroup
			wg.Go(func() { scheduler(b.Guard, func() time.Duration { return 0 }) })
			wg.Go(func() { scheduler(b.other, func() time.Duration { return apart - rand.N(2*apart) }) })
			wg.Wait()
			for _, n := range ran {
				runs, most = runs+n, max(most, n)
			}
		})
		return runs, most
	}
	if runs, most := run(t, 500*time.Millisecond); runs != ticks || most != 1 {
		t.Errorf("%d runs of %d ticks, up to %d of one", runs, ticks, most)
	}
	if runs, _ := run(t, 0); runs < ticks*3/2 {
		t.Errorf("%d runs without MinHold: the test shows nothing", runs)
	}
}
