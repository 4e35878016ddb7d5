package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

func TestRelease_OfTheOuterLeaseFirstIsBoundedAndLoud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(0))
		outer := must(b.Acquire(t.Context(), key))
		inner := must(b.Acquire(outer.Context(), key))
		start := time.Now()
		wantErr(t, outer.Release(t.Context()), guard.ErrLeaseLost)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("waited %v", d)
		}
		wantErr(t, context.Cause(inner.Context()), guard.ErrLeaseLost)
		if _, err := b.other.TryAcquire(t.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
			t.Errorf("the key was given away under the inner lease: %v", err)
		}
		wantErr(t, inner.Release(t.Context()), guard.ErrLeaseLost)
		time.Sleep(10 * time.Second) // the TTL
		if err := b.Do(t.Context(), key, nop); err != nil {
			t.Errorf("something was left: %v", err)
		}
	})
}

func TestRelease_AFunctionInsideIsWaitedForHoweverLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		outer := must(b.Acquire(t.Context(), key))
		done := make(chan error, 1)
		go func() {
			done <- b.Do(outer.Context(), key, func(ctx context.Context) error {
				time.Sleep(20 * time.Second)
				return b.Do(ctx, key, nop)
			})
		}()
		synctest.Wait()
		start := time.Now()
		if err := outer.Release(t.Context()); err != nil || time.Since(start) != 20*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAcquire_ALeakedLeaseInsideAFunctionEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(0))
		var leaked *guard.Lease
		start := time.Now()
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			return b.Do(ctx, key, func(ctx context.Context) error {
				leaked = must(b.Acquire(ctx, key))
				return nil
			})
		})
		wantErr(t, err, guard.ErrLeaseLost)
		if d := time.Since(start); d > 6*time.Second {
			t.Errorf("took %v", d)
		}
		wantErr(t, context.Cause(leaked.Context()), guard.ErrLeaseLost)
		_ = leaked.Release(t.Context())
	})
}

func TestRelease_NoKeyIsGivenAwayUnderAnInnerCallPastMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(time.Second))
		outer := must(b.Acquire(t.Context(), key))
		running := make(chan struct{})
		go func() {
			_ = b.Do(outer.Context(), key, func(context.Context) error {
				time.Sleep(2 * time.Second) // does not listen
				close(running)
				return nil
			})
		}()
		time.Sleep(1500 * time.Millisecond)
		wantErr(t, outer.Release(t.Context()), guard.ErrMaxHold)
		if _, err := b.other.TryAcquire(t.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
			t.Errorf("the key was given away: %v", err)
		}
		<-running
	})
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
