package redlock_test

import (
	"context"
	"errors"
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

// contend runs many processes with one caller each. All callers want the same
// key, and each of them must be served.
func contend(t *testing.T, nodes func() []redis.UniversalClient, turns int, opts ...guard.Option) {
	t.Helper()
	const processes = 8
	var s section
	var wg sync.WaitGroup
	for range processes {
		g := newGuard(t, nodes(), append([]guard.Option{
			guard.WithFencing(),
			guard.WithMaxWait(time.Minute),
		}, opts...)...)
		wg.Go(func() {
			for range turns {
				if err := g.Do(t.Context(), "hot",
					func(ctx context.Context) error { return s.enter(ctx, t) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	start := time.Now()
	wg.Wait()
	t.Logf("%d turns in %v", s.ran.Load(), time.Since(start))
	s.check(t)
	if n := s.ran.Load(); n != int64(processes*turns) {
		t.Errorf("%d turns, want %d", n, processes*turns)
	}
}

func TestSplitVotesComeToADecision(t *testing.T) {
	t.Parallel()
	for name, minority := range map[string]func(*redistest.Server){
		"all nodes": func(*redistest.Server) {},
		"killed":    (*redistest.Server).Kill,
		"stopped":   (*redistest.Server).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{3, 5} {
				servers := redistest.StartN(t, n)
				for _, s := range servers[:n/2] {
					minority(s)
				}
				contend(t, func() []redis.UniversalClient { return clientsOf(t, servers) }, 10)
				for _, s := range servers[:n/2] {
					if name == "stopped" {
						s.Cont() // otherwise the guards wait at their end for what it may yet do
					}
				}
			}
		})
	}
}

// A claim that does not wait gives its votes back at once, so that others get
// them.
func TestThoseWhoDoNotWaitGetTheirTurns(t *testing.T) {
	servers := redistest.StartN(t, 5)
	var s section
	var wg sync.WaitGroup
	for range 8 {
		g := newGuard(t, clientsOf(t, servers), guard.WithFencing(), guard.WithMaxWait(0))
		wg.Go(func() {
			for won := 0; won < 10; {
				err := g.Do(t.Context(), "hot", func(ctx context.Context) error { return s.enter(ctx, t) })
				switch {
				case err == nil:
					won++
				// On a busy machine nodes are late.
				case !errors.Is(err, guard.ErrNotAcquired) && !errors.Is(err, guard.ErrUnavailable):
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond) // as a caller that comes back
			}
		})
	}
	wg.Wait()
	s.check(t)
}

// Nodes come and go while many processes share a key. Each process gets its
// turns, one at a time, with tokens that rise.
func TestNodesComeAndGoUnderAHotKey(t *testing.T) {
	t.Parallel()
	servers := redistest.StartN(t, 5)
	stop := make(chan struct{})
	var nemesis sync.WaitGroup
	nemesis.Go(func() {
		for i := 0; ; i++ {
			a, b := servers[i%5], servers[(i+2)%5]
			a.Stop()
			b.Stop()
			timer := time.NewTimer(150 * time.Millisecond)
			select {
			case <-timer.C:
			case <-stop:
			}
			timer.Stop()
			a.Cont()
			b.Cont()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	contend(t, func() []redis.UniversalClient { return clientsOf(t, servers) }, 12, guard.WithTTL(5*time.Second))
	close(stop)
	nemesis.Wait()
}
