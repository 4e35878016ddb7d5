package lockerkit

import (
	"cmp"
	"sync"
)

// Each calls f for the numbers below n, at most so many of them at a time, and
// waits. It returns the first error by their order.
func Each(n, atOnce int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			errs[i] = f(i)
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}
