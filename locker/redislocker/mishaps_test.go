package redislocker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func newGuard(t *testing.T, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.Patient(t, redislocker.New(rdb), opts...)
}

// A cluster client answers a pipeline when its slowest node has answered. A
// silent node must not stop keys of the others.
func TestOneSilentNodeDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	a, b, rdb := twoNodes(t)
	g := newGuard(t, rdb, guard.WithMaxWait(0))
	onA, onB := keysByNode(t, g, redistest.Client(t, a.Addr))

	b.Stop()
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for _, k := range onB {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = g.Do(ctx, k, func(context.Context) error { return nil })
			}
		})
	}
	time.Sleep(700 * time.Millisecond) // until all connections to B hang
	var healthy sync.WaitGroup
	waits := g.With(guard.WithMaxWait(time.Minute)) // a busy machine may take longer than one try
	for _, k := range onA[:5] {
		healthy.Go(func() {
			for n := range 50 {
				if err := waits.Do(t.Context(), k, func(context.Context) error { return nil }); err != nil {
					t.Errorf("call %d of 50 for %s, on the node that is well: %v", n+1, k, err)
					return
				}
			}
		})
	}
	healthy.Wait()
	stop()
	b.Cont()
	wg.Wait()
}

func keysByNode(t *testing.T, g *guard.Guard, a *redis.Client) (onA, onB []string) {
	t.Helper()
	for i := 0; len(onA) < 20 || len(onB) < 20; i++ {
		k := fmt.Sprint("k", i)
		err := g.Do(t.Context(), k, func(ctx context.Context) error {
			if a.Exists(ctx, lock(k)).Val() == 1 {
				onA = append(onA, k)
			} else {
				onB = append(onB, k)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return onA, onB[:20]
}

// cut ends a context after this many requests.
type cut struct {
	left atomic.Int64
	end  func()
}

func (h *cut) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *cut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		defer h.count()
		return next(ctx, c)
	}
}

func (h *cut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		defer h.count()
		return next(ctx, cs)
	}
}

func (h *cut) count() {
	if h.left.Add(-1) == 0 {
		h.end()
	}
}

func TestACheckThatIsCutShortLeavesNothing(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	for after := int64(1); ; after++ {
		ctx, cancel := context.WithCancel(t.Context())
		h := &cut{end: cancel}
		h.left.Store(after)
		l := redislocker.New(rdb, redislocker.WithHook(h))
		if err := l.Open(waker{}); err != nil {
			t.Fatal(err)
		}
		_ = l.Check(ctx, ttl)
		if err := l.Close(t.Context()); err != nil { // does at once what is left to clean
			t.Fatal(err)
		}
		if left := rdb.Keys(t.Context(), "*").Val(); len(left) > 0 {
			t.Fatalf("cut after %d requests: left %s", after, strings.Join(left, ", "))
		}
		cancel()
		if h.left.Load() > 0 { // it was not cut
			return
		}
	}
}
