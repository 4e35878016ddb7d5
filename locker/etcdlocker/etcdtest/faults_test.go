package etcdtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func nothing(context.Context) error { return nil }

func TestMessagesThatWereCompactedCostNoSection(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := etcdtest.Client(t, addr)
	const callers, rounds = 5, 20
	n := 0
	var all, compacting sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	compacting.Go(func() {
		for ctx.Err() == nil {
			if r, err := c.Get(ctx, prefix); err == nil {
				_, _ = c.Compact(ctx, r.Header.Revision)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	for range 2 {
		g, _ := newGuard(t, etcdtest.Client(t, addr), prefix)
		for range callers {
			all.Go(func() {
				for range rounds {
					if err := g.Do(t.Context(), "k", func(context.Context) error { n++; return nil }); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	stop()
	compacting.Wait()
	if n != 2*callers*rounds {
		t.Errorf("%d sections counted, want %d", n, 2*callers*rounds)
	}
}

func TestALockerGoesOnWithTheNextMember(t *testing.T) {
	t.Parallel()
	members := etcdtest.Start(t, 3, etcdtest.Settings{})
	first := etcdtest.Client(t, members[0].Addr)
	l := etcdlocker.New(first, etcdlocker.WithMembers(
		etcdtest.Client(t, members[1].Addr), etcdtest.Client(t, members[2].Addr)))
	g, err := guard.New(l, guard.WithTTL(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := g.Do(t.Context(), "k", nothing); err != nil {
		t.Fatal(err)
	}
	members[0].Pause()
	defer members[0].Resume()
	start := time.Now()
	for {
		err := g.Do(t.Context(), "k", nothing)
		if err == nil {
			break
		}
		held := errors.Is(err, guard.ErrNotAcquired) // by a claim before, which had no answer
		if !held && !errors.Is(err, guard.ErrUnavailable) || time.Since(start) > testguard.Patience {
			t.Fatal(err)
		}
	}
	t.Logf("served again %v after the member had stopped", time.Since(start))
}
