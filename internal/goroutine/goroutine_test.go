package goroutine_test

import (
	"testing"

	"github.com/go-lockguard/guard/internal/goroutine"
)

func TestEachGoroutineHasItsNumber(t *testing.T) {
	seen := map[int]bool{}
	numbers := make(chan int)
	for range 10 {
		go func() { numbers <- goroutine.Number(); numbers <- goroutine.Number() }()
		n := <-numbers
		if n != <-numbers || n <= 0 || seen[n] {
			t.Errorf("%d, after %v", n, seen)
		}
		seen[n] = true
	}
}
