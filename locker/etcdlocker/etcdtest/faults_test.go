package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// patience bounds the wait for what must come.
const patience = 30 * time.Second

func nothing(context.Context) error { return nil }

// waiting waits until n claims wait for key.
func waiting(t *testing.T, g *guard.Guard, key string, n int) {
	t.Helper()
	for start := time.Now(); time.Since(start) < patience; time.Sleep(5 * time.Millisecond) {
		if s, err := g.Inspect(t.Context(), key); err == nil && s.Waiting >= n {
			return
		}
	}
	t.Fatalf("%d do not come to wait for %s", n, key)
}

// A holder that is cut off is, for everybody else, one whose process was
// killed.
func TestAHolderThatIsCutOffStopsBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	const holders, ttl = 20, 4 * time.Second // which a machine that stands still for a second does not end
	addr, prefix := store(t)
	others, _ := newGuard(t, etcdtest.Client(t, addr), prefix, guard.WithMaxWait(patience))
	var all sync.WaitGroup
	for i := range holders {
		p := faultpipe.NewLossy(t, addr)
		g, _ := newGuard(t, etcdtest.Client(t, p.Addr), prefix, guard.WithTTL(ttl))
		key := fmt.Sprint("k", i)
		l, err := g.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			got := make(chan time.Time, 1)
			go func() {
				defer close(got)
				err := others.Do(t.Context(), key, func(context.Context) error {
					got <- time.Now()
					if l.Err() == nil {
						t.Errorf("the next began in the holder's lease, which ends in %v", time.Until(l.Deadline()))
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
			waiting(t, others, key, 1)
			time.Sleep(rand.N(ttl))
			cut := time.Now()
			mend := p.Cut(i%2 == 0, true)
			defer mend()
			<-l.Context().Done()
			stopped := time.Now()
			next, ok := <-got
			_ = l.Release(t.Context()) // it was lost
			if !ok {
				return
			}
			t.Logf("told %v before the next, which began %v after the cut", next.Sub(stopped), next.Sub(cut))
		})
	}
	all.Wait()
}

func TestAFirstWaiterThatIsGoneCostsAnOffer(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := etcdtest.Client(t, addr)
	p := faultpipe.NewLossy(t, addr)
	holder, _ := newGuard(t, c, prefix)
	dead, _ := newGuard(t, etcdtest.Client(t, p.Addr), prefix)
	second, _ := newGuard(t, c, prefix, guard.WithMaxWait(2*patience))

	l, err := holder.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { _ = dead.Do(ctx, "k", nothing) })
	waiting(t, holder, "k", 1)
	got := make(chan time.Time, 1)
	all.Go(func() {
		_ = second.Do(t.Context(), "k", func(context.Context) error { got <- time.Now(); return nil })
	})
	waiting(t, holder, "k", 2)
	mend := p.Cut(true, true)
	released := time.Now()
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case at := <-got:
		t.Logf("the second began %v after the release", at.Sub(released))
	case <-time.After(patience):
		t.Error("the second does not get the key")
	}
	stop()
	mend()
}

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
		if !errors.Is(err, guard.ErrUnavailable) || time.Since(start) > patience {
			t.Fatal(err)
		}
	}
	t.Logf("served again %v after the member had stopped", time.Since(start))
}
