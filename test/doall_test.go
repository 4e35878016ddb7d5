package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// A hanging bench answers nothing while it hangs. Each request runs into its
// own limit.
type hanging struct {
	*bench
	hangs atomic.Bool
}

func newHanging(t *testing.T, opts ...guard.Option) *hanging {
	t.Helper()
	h := &hanging{bench: newBench(t, opts...)}
	silent := func(ctx context.Context) bool {
		if h.hangs.Load() {
			<-ctx.Done()
		}
		return ctx.Err() != nil
	}
	h.spy.acquire = func(ctx context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
		if silent(ctx) {
			return locker.Answer{}, guard.ErrUnavailable
		}
		return next()
	}
	h.spy.renew = func(ctx context.Context, next func() []error) []error {
		errs := next()
		if silent(ctx) {
			for i := range errs {
				errs[i] = guard.ErrUnavailable
			}
		}
		return errs
	}
	h.spy.release = func(ctx context.Context, next releases) (locker.Released, error) {
		if silent(ctx) {
			return locker.Released{}, guard.ErrUnavailable
		}
		return next()
	}
	return h
}

func TestDoAll_EachKeyHasALeaseAndATokenOfItsOwn(t *testing.T) {
	b := newBench(t, guard.WithFencing())
	ctx := t.Context()
	if _, ok := guard.LeaseOf(ctx, "a"); ok {
		t.Error("a lease was found before there was one")
	}
	err := b.Do(ctx, "outer", func(ctx context.Context) error {
		return b.DoAll(ctx, []string{"b", "a", "outer"}, func(ctx context.Context) error {
			for _, key := range []string{"a", "b", "outer"} {
				l, ok := guard.LeaseOf(ctx, key)
				if !ok || l.Key() != key {
					t.Errorf("LeaseOf %q: %v, %v", key, l, ok)
					continue
				}
				if token, err := l.FencingToken(ctx); token == 0 || err != nil {
					t.Errorf("%q: token %d, %v", key, token, err)
				}
				if err := l.Release(ctx); err == nil && key != "outer" {
					if _, ok := guard.LeaseOf(ctx, key); ok {
						t.Errorf("%q: found after its release", key)
					}
				}
			}
			if _, ok := guard.LeaseOf(ctx, "c"); ok {
				t.Error("a lease was found on a key that nobody asked for")
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%05d", i)
	}
	return keys
}

func inBubbles(t *testing.T, test func(t *testing.T, n int)) {
	t.Helper()
	for _, n := range []int{1, 20, 1000} {
		t.Run(fmt.Sprint(n, " keys"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(t, n)
				time.Sleep(time.Minute) // a request that hangs runs into its limit
			})
		})
	}
}

func TestDoAll_IsBoundedThoughTheStoreHangsWhileItWaits(t *testing.T) {
	inBubbles(t, func(t *testing.T, n int) {
		t.Helper()
		h := newHanging(t, guard.WithMaxWait(300*time.Millisecond))
		keys := manyKeys(n)
		last := must(h.other.Acquire(t.Context(), keys[n-1]))
		start := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { h.hangs.Store(true) })
		if err := h.DoAll(t.Context(), keys, nop); err == nil {
			t.Error("ran without the last key")
		}
		if d := time.Since(start); d > 550*time.Millisecond {
			t.Errorf("returned after %v", d)
		}
		h.hangs.Store(false)
		_ = last.Release(t.Context())
		for _, k := range keys {
			if err := h.other.Do(t.Context(), k, nop); err != nil {
				t.Fatalf("%s was left: %v", k, err)
			}
		}
	})
}

func TestDoAll_IsBoundedAndLosesNothingIfTheStoreHangsAtItsEnd(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, 10 * time.Second, time.Minute} {
		inBubbles(t, func(t *testing.T, n int) {
			t.Helper()
			h := newHanging(t, guard.WithTTL(ttl))
			var returned time.Time
			err := h.DoAll(t.Context(), manyKeys(n), func(context.Context) error {
				h.hangs.Store(true)
				returned = time.Now()
				return nil
			})
			if d := time.Since(returned); err != nil || d > time.Second {
				t.Errorf("TTL %v: %v, %v after the function", ttl, err, d)
			}
		})
	}
}

func TestDoAll_IsBoundedThoughTheStoreHangsInItsReleases(t *testing.T) {
	inBubbles(t, func(t *testing.T, n int) {
		t.Helper()
		h := newHanging(t)
		release := h.spy.release
		h.spy.set(func(s *spy) {
			s.release = func(ctx context.Context, next releases) (locker.Released, error) {
				if s.releases.Load() > int64(n/2) {
					h.hangs.Store(true)
				}
				return release(ctx, next)
			}
		})
		start := time.Now()
		if err := h.DoAll(t.Context(), manyKeys(n), nop); err != nil || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// wraps puts a context of its own around the context of every hold. It counts
// the lookups that pass through.
type wraps struct {
	guard.NopObserver
	passed atomic.Int64
}

type wrapped struct {
	context.Context
	by *wraps
}

func (w wrapped) Value(key any) any { w.by.passed.Add(1); return w.Context.Value(key) }

func (w *wraps) HoldStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	return wrapped{ctx, w}
}

func TestDoAll_IsLinearInItsKeys(t *testing.T) {
	w := &wraps{}
	b := newBench(t, guard.WithObserver(w))
	lookups := func(n int) int64 {
		w.passed.Store(0)
		if err := b.DoAll(t.Context(), manyKeys(n), nop); err != nil {
			t.Error(err)
		}
		return w.passed.Load()
	}
	if few, many := lookups(300), lookups(3_000); many > 11*few {
		t.Errorf("%d lookups pass through the contexts of holds for 300 keys, %d for 3,000", few, many)
	}
}

func TestDoAll_ALookupInItsContextCostsTheSameForAnyNumber(t *testing.T) {
	w := &wraps{}
	b := newBench(t, guard.WithObserver(w))
	for _, n := range []int{1, 10, 1000} {
		err := b.DoAll(t.Context(), manyKeys(n), func(ctx context.Context) error {
			w.passed.Store(0)
			_ = ctx.Value("none has it")
			if got := w.passed.Load(); got != 1 {
				t.Errorf("%d keys: a lookup passes through the contexts of %d holds", n, got)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestDoAll_OppositeOrdersDeadlockInsideDoAndNotHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var both sync.WaitGroup // ends when each call has its first key
		both.Add(2)
		nested := func(g *guard.Guard, first, second string) error {
			return g.Do(t.Context(), first, func(ctx context.Context) error {
				both.Done()
				both.Wait()
				return g.Do(ctx, second, nop)
			})
		}
		began := time.Now()
		errs := make(chan error, 2)
		go func() { errs <- nested(b.Guard, "a", "b") }()
		go func() { errs <- nested(b.other, "b", "a") }()
		ends := []error{<-errs, <-errs} // in any order: when one has given up, the other may have its turn
		if d := time.Since(began); d != 3*time.Second || ends[0] == nil && ends[1] == nil {
			t.Errorf("after %v: %v, want the end of MaxWait", d, ends)
		}
		for _, err := range ends {
			if err != nil && !errors.Is(err, guard.ErrNotAcquired) {
				t.Error(err)
			}
		}
		go func() { errs <- b.DoAll(t.Context(), []string{"a", "b", "a"}, nop) }()
		go func() { errs <- b.other.DoAll(t.Context(), []string{"b", "a"}, nop) }()
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Errorf("DoAll: %v", err)
		}
	})
}
