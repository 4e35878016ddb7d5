package turns

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

func TestRecentGatesAreKeptForOneToTwoTimesTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l recentGates
		var mu sync.Mutex // guards what follows
		came, sweeps, over := map[*gate]time.Time{}, 0, 0
		var sweep func()
		sweep = func() {
			mu.Lock()
			defer mu.Unlock()
			sweeps++
			for _, gt := range l.turn(sweep) {
				over++
				if d := time.Since(came[gt]); d < limits.Busy || d > 2*limits.Busy {
					t.Errorf("a gate was kept for %v", d)
				}
			}
		}
		for range 100 {
			gt := &gate{}
			mu.Lock()
			came[gt] = time.Now()
			mu.Unlock()
			l.add(gt, sweep)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if over != len(came) || l.sweeps {
			t.Errorf("%d of %d gates are over, sweeping: %t", over, len(came), l.sweeps)
		}
		if sweeps > 8 {
			t.Errorf("a timer fired %d times for gates of 100 ms", sweeps)
		}
	})
}
