package guard_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// cluster has a node that hangs. That node has the keys that begin with "hung".
type cluster struct{ guard.Locker }

func (c cluster) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	hangs := false
	for i, claim := range cs {
		if strings.HasPrefix(claim.Key, "hung") {
			hangs = true
			continue
		}
		c.Locker.Renew(ctx, []*locker.Claim{claim}, func(_ int, err error) { answered(i, err) })
	}
	if !hangs {
		return
	}
	<-ctx.Done()
	for i, claim := range cs {
		if strings.HasPrefix(claim.Key, "hung") {
			answered(i, guard.ErrUnavailable)
		}
	}
}

func TestDo_AReleaseWaitsForNoRenewalThatHangsOnAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, cluster{memlocker.New()}, guard.WithMaxHold(0))
		var hung []*guard.Lease
		for i := range 400 {
			hung = append(hung, must(g.Acquire(t.Context(), fmt.Sprint("hung", i))))
		}
		var wg sync.WaitGroup
		for i := range 394 {
			l := must(g.Acquire(t.Context(), fmt.Sprint("well", i)))
			wg.Go(func() {
				time.Sleep(3*time.Second + time.Duration(i)*5*time.Millisecond) // while renewals are under way
				start := time.Now()
				if err := l.Release(t.Context()); err != nil || time.Since(start) > 10*time.Millisecond {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		}
		wg.Wait()
		for _, l := range hung {
			wg.Go(func() { _ = l.Release(t.Context()) })
		}
		wg.Wait()
		time.Sleep(time.Minute)
	})
}

// measures notes the longest key that the store sees.
type measures struct {
	guard.Locker
	longest int
}

func (m *measures) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	m.longest = max(m.longest, len(c.Key))
	return m.Locker.Acquire(ctx, c, t)
}

func TestDo_AStoreSeesShortNamesOfLongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &measures{Locker: memlocker.New()}
		g := newGuard(t, m)
		long := strings.Repeat("%", 64<<10)
		if err := g.Do(t.Context(), long, func(ctx context.Context) error { return g.Do(ctx, long, nop) }); err != nil {
			t.Fatal(err)
		}
		if m.longest > locker.MaxKey {
			t.Errorf("a key of %d bytes reaches the store", m.longest)
		}
		wantErr(t, g.Do(t.Context(), long+"%", nop), guard.ErrInvalidKey)
	})
}

// blocked is an observer whose methods never return.
type blocked struct {
	guard.NopObserver
	until chan struct{}
}

func (b blocked) Renewed(context.Context, guard.WaitInfo, guard.RenewResult) { <-b.until }
func (b blocked) LeaseLost(context.Context, guard.WaitInfo, error)           { <-b.until }

func TestDo_AnObserverThatBlocksHoldsUpNobodysRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(0), guard.WithTTL(300*time.Millisecond))
		o := blocked{until: make(chan struct{})}
		slow := b.With(guard.WithObserver(o))
		var blocking, others []*guard.Lease
		for i := range 20 {
			blocking = append(blocking, must(slow.Acquire(t.Context(), fmt.Sprint("blocking", i))))
			others = append(others, must(b.Acquire(t.Context(), fmt.Sprint("other", i))))
		}
		for i := range 10 {
			b.mem.Lose(fmt.Sprint("blocking", i))
		}
		time.Sleep(10 * time.Second)
		for _, l := range others {
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("%s: %v", l.Key(), err)
			}
		}
		for _, l := range blocking[10:] {
			if err := l.Err(); err != nil {
				t.Errorf("%s: %v", l.Key(), err)
			}
		}
		close(o.until)
		for _, l := range blocking {
			_ = l.Release(t.Context())
		}
	})
}
