package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redlock"
)

// newGuard returns a guard like that of a process of its own. Its nodes count
// at once.
func newGuard(t testing.TB, nodes []redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.Patient(t, redlock.New(nodes, redlock.WithRestartDelay(0)), opts...)
}

// section counts the callers inside, and checks that tokens rise.
type section struct {
	inside, overlaps, fell atomic.Int64
	last                   atomic.Uint64
	ran                    atomic.Int64
}

func (s *section) enter(ctx context.Context, t testing.TB) error {
	t.Helper()
	if s.inside.Add(1) != 1 {
		s.overlaps.Add(1)
	}
	defer s.inside.Add(-1)
	token, err := guard.FencingToken(ctx)
	if err != nil {
		return err
	}
	if last := s.last.Swap(token); token <= last {
		s.fell.Add(1)
	}
	s.ran.Add(1)
	return nil
}

func (s *section) check(t testing.TB) {
	t.Helper()
	if n := s.overlaps.Load(); n != 0 {
		t.Errorf("%d of %d sections overlapped", n, s.ran.Load())
	}
	if n := s.fell.Load(); n != 0 {
		t.Errorf("%d of %d tokens did not rise", n, s.ran.Load())
	}
}

func TestManyProcessesOnOneHotKeyTakeTurns(t *testing.T) {
	servers := redistest.StartN(t, 5)
	var s section
	var wg sync.WaitGroup
	for range 4 {
		g := newGuard(t, clientsOf(t, servers), guard.WithFencing(), guard.WithMaxWait(time.Minute),
			guard.WithMaxWaiters(0))
		for range 10 {
			wg.Go(func() {
				for range 20 {
					if err := g.Do(t.Context(), "hot",
						func(ctx context.Context) error { return s.enter(ctx, t) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	start := time.Now()
	wg.Wait()
	t.Logf("%d sections in %v", s.ran.Load(), time.Since(start))
	s.check(t)
	if n := s.ran.Load(); n != 4*10*20 {
		t.Errorf("%d sections, want %d", n, 4*10*20)
	}
}
