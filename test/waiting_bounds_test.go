package guard_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

func TestDo_AQueuedWaiterIsHandedTheKeyWhateverItsBackoff(t *testing.T) {
	for _, backoff := range []time.Duration{250 * time.Millisecond, 2 * time.Second, 5 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, guard.WithMaxWait(time.Minute), guard.WithBackoff(backoff, backoff))
			for range 20 {
				l := must(b.other.Acquire(t.Context(), key))
				given := make(chan time.Time, 1)
				go func() {
					_ = b.Do(t.Context(), key, func(context.Context) error { given <- time.Now(); return nil })
				}()
				time.Sleep(100*time.Millisecond + rand.N(10*time.Second))
				released := time.Now()
				_ = l.Release(t.Context())
				if d := (<-given).Sub(released); d != 0 {
					t.Errorf("backoff %v: given the key %v after its release", backoff, d)
				}
				synctest.Wait()
			}
		})
	}
}

// gone is a process that has died. Nobody hears its messages.
type gone struct{}

func (gone) Granted(string, string, locker.Offer) bool { return true }
func (gone) Wanted(string)                             {}
func (gone) Wake(string)                               {}
func (gone) WakeAll()                                  {}

func TestDo_AWaiterThatDiedCostsTheOthersAtMostTheOffer(t *testing.T) {
	for _, backoff := range []time.Duration{250 * time.Millisecond, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, guard.WithMaxWait(time.Minute), guard.WithBackoff(backoff, backoff))
			l := must(b.other.Acquire(t.Context(), key))
			dead := b.mem.Peer()
			if err := dead.Open(gone{}); err != nil {
				t.Fatal(err)
			}
			c := &locker.Claim{Key: key, Owner: "0123456789012345678901", TTL: 10 * time.Second}
			if a := must(dead.Acquire(t.Context(), c, locker.Try{Wait: true})); !a.Queued {
				t.Fatal("not queued")
			}
			var wg sync.WaitGroup
			var waited time.Duration
			var released time.Time
			wg.Go(func() {
				_ = b.Do(t.Context(), key, func(context.Context) error { waited = time.Since(released); return nil })
			})
			time.Sleep(time.Second) // it is queued behind the dead
			released = time.Now()
			_ = l.Release(t.Context())
			wg.Wait()
			if waited > c.LongOffer() {
				t.Errorf("backoff %v: waited %v for a key that nobody held", backoff, waited)
			}
		})
	}
}

func TestRelease_ReleaseByTwoIsSeenByABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		outer := must(b.Acquire(t.Context(), key))
		inner := must(b.Acquire(outer.Context(), key))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := outer.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second) // time goes on only if both are known to wait
		_ = inner.Release(t.Context())
		wg.Wait()
	})
}

func TestDo_ALineWhoseCallsDifferInFencingHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Minute))
		fenced := b.With(guard.WithFencing())
		l := must(fenced.Acquire(t.Context(), key))
		var wg sync.WaitGroup
		for i := range 40 {
			g := fenced
			if i%2 == 1 {
				g = b.Guard
			}
			wg.Go(func() { _ = g.Do(t.Context(), key, nop) })
			synctest.Wait()
		}
		before := b.spy.acquires.Load()
		_ = l.Release(t.Context())
		wg.Wait()
		if n := b.spy.acquires.Load() - before; n != 0 {
			t.Errorf("%d tries for 40 turns in one tenure", n)
		}
	})
}
