package lockmw_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/kratos"
)

func TestCallsOfOneKeyRunOneAtATimeOverBothTransports(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(time.Hour))
	var inside, done atomic.Int32
	h := func(context.Context) error {
		defer inside.Add(-1)
		if n := inside.Add(1); n > 1 {
			t.Errorf("%d calls at once", n)
		}
		time.Sleep(time.Millisecond) // for others to come
		done.Add(1)
		return nil
	}
	const each = 5
	var wg sync.WaitGroup
	for kind, call := range serve(t, h, rules(g.Guard, lockmw.WithMaxWait(time.Hour))...) {
		for _, operation := range []string{buy, price} {
			for range each {
				wg.Go(func() {
					if e, _ := call(t.Context(), operation, "42"); e != nil {
						t.Errorf("%s%s: %v", kind, operation, e)
					}
				})
			}
		}
	}
	wg.Wait()
	if n := done.Load(); n != 4*each {
		t.Errorf("%d calls are done, want %d", n, 4*each)
	}
}
