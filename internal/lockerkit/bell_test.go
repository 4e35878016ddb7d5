package lockerkit_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

func TestALookFollowsEachRingForAsLongAsThereIsSomethingToLookFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks, paused []time.Duration
		begun, bell, done, ended := time.Now(), make(lockerkit.Bell, 1), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			bell.Look(done, func(took time.Duration) time.Duration {
				paused = append(paused, took)
				return time.Second
			}, func() bool {
				looks = append(looks, time.Since(begun))
				time.Sleep(100 * time.Millisecond)
				return len(looks)%2 == 1
			})
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(looks) > 0 {
			t.Errorf("a look at %v, before the first ring", looks)
		}
		bell.Ring()
		time.Sleep(10 * time.Second)
		bell.Ring()
		time.Sleep(10500 * time.Millisecond)
		synctest.Wait()
		const ms = time.Millisecond
		if want := []time.Duration{
			11000 * ms, 12100 * ms, 21000 * ms, 22100 * ms,
		}; !slices.Equal(looks, want) {
			t.Errorf("looks at %v, want %v", looks, want)
		}
		if want := []time.Duration{0, 100 * ms, 0, 100 * ms}; !slices.Equal(paused, want) {
			t.Errorf("pauses after looks of %v, want %v", paused, want)
		}
		for range 3 { // none blocks
			bell.Ring()
		}
		synctest.Wait()
		close(done) // in a pause
		<-ended
		if len(looks) > 4 {
			t.Errorf("a look after the end: %v", looks)
		}
	})
}
