package guard_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// atTheSameTime makes n calls at once, whose functions wait for each other. It
// returns how many ran, and how many were told that the key is held. On a busy
// machine an answer may be late, and its calls are told neither.
func atTheSameTime(t *testing.T, g *guard.Guard, n int, key string) (ran, held int64) {
	t.Helper()
	var in, out atomic.Int64
	var done sync.WaitGroup
	end := make(chan struct{})
	for range n {
		done.Go(func() {
			err := g.Do(t.Context(), key, func(context.Context) error { in.Add(1); <-end; return nil })
			switch {
			case errors.Is(err, guard.ErrNotAcquired):
				out.Add(1)
			case err != nil && !errors.Is(err, guard.ErrUnavailable):
				t.Error(err)
			}
		})
	}
	time.AfterFunc(400*time.Millisecond, func() { close(end) })
	done.Wait()
	return in.Load(), out.Load()
}

func TestDo_OneAttemptGetsInWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	p.Far(redistest.Distance{RoundTrip: 5 * time.Millisecond})
	g := must(guard.New(redislocker.New(redistest.Client(t, p.Addr)), guard.WithMaxWait(0)))
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	_ = g.Do(t.Context(), "warm", nop)
	for range 5 {
		if ran, held := atTheSameTime(t, g.With(guard.WithPermits(5)), 8, "permits"); ran > 5 || held > 3 {
			t.Errorf("%d of 8 calls ran on 5 permits, %d were refused", ran, held)
		}
		if ran, held := atTheSameTime(t, g.With(guard.WithShared()), 20, "shared"); ran == 0 || held > 0 {
			t.Errorf("%d of 20 readers ran, %d were refused", ran, held)
		}
		if ran, _ := atTheSameTime(t, g, 8, "alone"); ran > 1 {
			t.Errorf("%d ran alone", ran)
		}
	}
}

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
