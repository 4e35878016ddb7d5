package main

import (
	"context"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestARoundCountsSections(t *testing.T) {
	mem := memlocker.New()
	open := opener(func(int) (locker.Locker, func(), error) { return mem.Peer(), func() {}, nil })
	for _, c := range contests {
		for i := 0; ; i++ { // a busy machine may let no section end in this short time
			n, err := c.round(50*time.Millisecond, withGuard(open))
			if err != nil || i == 20 {
				t.Errorf("%s: %d sections a second, %v", c.name, n, err)
			}
			if n > 0 || err != nil || i == 20 {
				break
			}
		}
	}
}

// Nothing is measured of a lock that does not lock.
func TestALockThatDoesNotLockIsNotMeasured(t *testing.T) {
	none := rival{"none", func(contest) (process, error) {
		return process{func(_ context.Context, _ string, f func(int)) error { f(1); return nil }, func() {}}, nil
	}}
	hot := contest{processes: 2, callers: 25}
	for i := 0; ; i++ {
		if _, err := hot.round(100*time.Millisecond, none); err != nil {
			return
		}
		if i == 20 {
			t.Fatal("sections of no lock never ran at once")
		}
	}
}
