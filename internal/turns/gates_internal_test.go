package turns

import (
	"hash/maphash"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

func TestRecentGatesAreKeptForOneToTwoTimesTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gates{seed: maphash.MakeSeed()}
		came, sweeps := map[string]time.Time{}, 0
		for ms := 0; ms < 100 || len(came) > 0; ms++ {
			if key := strconv.Itoa(ms); ms < 100 {
				gt := s.enter(key)
				s.recent.keep(gt)
				gt.leave()
				came[key] = time.Now()
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			before := len(came)
			for key, at := range came {
				if s.find(key) != nil {
					continue
				}
				delete(came, key)
				if d := time.Since(at); d < limits.Busy || d > 2*limits.Busy+time.Millisecond {
					t.Errorf("a gate was kept for %v", d)
				}
			}
			if len(came) < before {
				sweeps++
			}
			if ms > 1000 {
				t.Fatalf("%d gates are left", len(came))
			}
		}
		if sweeps > 8 {
			t.Errorf("a timer fired %d times for gates of 100 ms", sweeps)
		}
	})
}
