package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// A key of another type is an error for all that wait, with one request.
func TestDo_AKeyOfAnotherTypeIsAnErrorForAllThatWait(t *testing.T) {
	t.Parallel()
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	p := redistest.NewProxy(t, rdb.Options().Addr)
	g := must(guard.New(redislocker.New(redistest.Client(t, p.Addr))))
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	_ = g.Do(t.Context(), "warm", nop)
	rdb.HSet(t.Context(), "guard:{k}", "a", "b")
	p.Far(redistest.Distance{RoundTrip: 50 * time.Millisecond})
	p.CutAll() // so that all connections are far
	_ = g.Do(t.Context(), "warm", nop)
	p.Reset()
	var done sync.WaitGroup
	for range 20 {
		done.Go(func() {
			err := g.Do(t.Context(), "k", nop)
			if !errors.Is(err, guard.ErrUnavailable) || errors.Is(err, guard.ErrNotAcquired) {
				t.Errorf("got %v", err)
			}
		})
	}
	done.Wait()
	sent := p.Commands()
	// A call may come after the first answer, and a try may be a script.
	if n := sent["SET"] + sent["EVALSHA"] + sent["EVAL"]; n == 0 || n > 9 {
		t.Errorf("%d requests for 20 calls", n)
	}
}
