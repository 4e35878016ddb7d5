package lockertest

import (
	"sync"
	"sync/atomic"
)

// Option changes how [Run] and [RunFaulty] run their checks.
type Option func(*settings)

type settings struct{ atOnce int }

// AtOnce sets how many checks are under way at a time. The default is 8 for
// [Run] and 1 for [RunFaulty]. With 1, newPair may use what the pair before it
// has used. The flag -parallel of go test has no part in this.
func AtOnce(n int) Option { return func(s *settings) { s.atOnce = n } }

// runAll calls run for each number below n, by default so many at once, and
// returns when all have ended.
func runAll(atOnce int, opts []Option, n int, run func(i int)) {
	s := settings{atOnce}
	for _, o := range opts {
		o(&s)
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range max(s.atOnce, 1) {
		workers.Go(func() { // ends when each number had its call
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				run(i)
			}
		})
	}
	workers.Wait()
}
