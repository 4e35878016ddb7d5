package guard_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/ctxkey"
)

func TestDo_NestedCallsRunInsideTheOuterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		depth := 0
		err := b.Do(t.Context(), "a", func(ctx context.Context) error {
			return b.Do(ctx, "b", func(ctx context.Context) error {
				return b.With(guard.WithMaxWait(0), guard.WithTTL(time.Second)).Do(ctx, "a",
					func(ctx context.Context) error {
						return b.Do(ctx, "a", func(ctx context.Context) error {
							depth++
							l, ok := guard.LeaseFrom(ctx)
							if !ok || l.Key() != "a" || time.Until(l.Deadline()) < 9*time.Second {
								t.Error("the inner lease is not the outer one's")
							}
							return nil
						})
					})
			})
		})
		if err != nil || depth != 1 {
			t.Fatal(err, depth)
		}
		if n := b.spy.acquires.Load(); n != 2 {
			t.Errorf("%d tries for two keys", n)
		}
	})
}

func TestDo_SiblingsOnOneLeaseRunOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Minute))
		n := 0
		var wg sync.WaitGroup
		start := time.Now()
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			for range 8 {
				wg.Go(func() {
					err := b.Do(ctx, key, func(context.Context) error {
						n++
						time.Sleep(time.Second)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait() // one runs, seven wait
			_, err := b.TryAcquire(ctx, key)
			wantErr(t, err, guard.ErrNotAcquired)
			short := b.With(guard.WithMaxWait(100 * time.Millisecond))
			wantErr(t, short.Do(ctx, key, nop), guard.ErrNotAcquired)
			return nil // and returns before they have run
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); n != 8 || d != 8*time.Second {
			t.Errorf("%d ran before the outer call returned after %v", n, d)
		}
		wg.Wait()
	})
}

func TestDo_AReleasedLeaseCountsAsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		l := must(b.Acquire(t.Context(), key))
		ctx := context.WithoutCancel(l.Context())
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, l.Err(), guard.ErrNoLease)
		if _, ok := guard.LeaseFrom(ctx); ok {
			t.Error("LeaseFrom found a released lease")
		}
		_, err := guard.FencingToken(ctx)
		wantErr(t, err, guard.ErrNoLease)
		if err := b.Do(ctx, key, nop); err != nil {
			t.Fatal(err)
		}
		if n := b.spy.acquires.Load(); n != 2 {
			t.Errorf("%d tries, want a fresh one", n)
		}
	})
}

func TestDo_ASiblingThatOutwaitsItsLeaseAcquiresAfresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Minute))
		outer := must(b.Acquire(t.Context(), key))
		inner := must(b.Acquire(outer.Context(), key))
		released := make(chan error)
		go func() { released <- outer.Release(t.Context()) }() // waits for inner, and is ahead of the next sibling
		synctest.Wait()
		done := make(chan error)
		go func() {
			done <- b.Do(context.WithoutCancel(outer.Context()), key, func(context.Context) error {
				wantErr(t, outer.Err(), guard.ErrNoLease) // a turn of its own, after the outer one
				return nil
			})
		}()
		synctest.Wait()
		if err := inner.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-released, <-done); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDo_ALostLeaseRefusesReentryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			inner := must(b.Acquire(ctx, key))
			waits := make(chan struct{})
			go func() { _ = b.With(guard.WithMaxWait(time.Minute)).Do(ctx, key, nop); close(waits) }()
			b.mem.Lose(key)
			<-inner.Context().Done()
			wantErr(t, context.Cause(inner.Context()), guard.ErrLeaseLost)
			<-waits // ends with the lease, one way or the other
			wantErr(t, inner.Release(ctx), guard.ErrLeaseLost)
			wantErr(t, b.Do(context.WithoutCancel(ctx), key, nop), guard.ErrLeaseLost)
			return nil
		})
		wantErr(t, err, guard.ErrLeaseLost)
	})
}

func TestDo_ALeaseIsFoundThroughAContextThatLooksUpStrings(t *testing.T) {
	b := newBench(t)
	err := b.Do(t.Context(), key, func(ctx context.Context) error {
		l, _ := guard.LeaseFrom(ctx)
		plain := context.WithValue(t.Context(), ctxkey.Key, l) //nolint:staticcheck // what gin.Context.Set does
		return b.With(guard.WithMaxWait(0)).Do(plain, key, nop)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDo_FamiliesDoNotShareLeases(t *testing.T) {
	b := newBench(t, guard.WithMaxWait(0))
	err := b.Do(t.Context(), key, func(ctx context.Context) error { return b.other.Do(ctx, key, nop) })
	wantErr(t, err, guard.ErrNotAcquired)
}

// A call has run inside the lease, and none does any more.
func TestDo_ALostLeaseFreesItsKeyThoughCallsHaveRunInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(time.Second))
		for range 20 { // it was a matter of luck
			err := b.Do(t.Context(), key, func(ctx context.Context) error {
				defer func() { <-ctx.Done() }()
				return b.Do(ctx, key, nop)
			})
			wantErr(t, err, guard.ErrMaxHold)
			time.Sleep(time.Millisecond) // what is left is removed in the background
			if err := b.other.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A reader whose MaxHold is over has no lease that another one could outlive.
func TestDo_AReaderThatIsOverdueTakesNoLeaseFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithShared(), guard.WithMaxHold(time.Minute))
		other := must(b.Acquire(t.Context(), key))
		inner := make(chan *guard.Lease, 1)
		err := b.With(guard.WithMaxHold(time.Second)).Do(t.Context(), key, func(ctx context.Context) error {
			inner <- must(b.Acquire(ctx, key))
			<-ctx.Done()
			return nil
		})
		wantErr(t, err, guard.ErrMaxHold)
		if err := other.Err(); err != nil {
			t.Errorf("the other reader lost its lease: %v", err)
		}
		wantErr(t, (<-inner).Release(t.Context()), guard.ErrMaxHold)
		wantErr(t, other.Release(t.Context()), nil)
	})
}

func TestRelease_ReleaseFromACallInsideIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(0))
		l := must(b.Acquire(t.Context(), key))
		done := make(chan error, 3)
		go func() {
			done <- b.Do(l.Context(), key, func(ctx context.Context) error {
				return b.Do(ctx, key, func(ctx context.Context) error { return l.Release(ctx) })
			})
			done <- b.Do(l.Context(), key, func(ctx context.Context) error {
				return b.Do(ctx, "other", func(ctx context.Context) error { return l.Release(ctx) })
			})
			done <- b.DoAll(l.Context(), []string{key, "zz"}, func(ctx context.Context) error { return l.Release(ctx) })
		}()
		for range cap(done) {
			select {
			case err := <-done:
				wantErr(t, err, guard.ErrInvalidOption)
			case <-time.After(time.Hour):
				t.Fatal("Release waits for itself")
			}
		}
		wantErr(t, l.Release(l.Context()), nil) // by the lease's own context
	})
}

// A quitter ends the goroutine in which it is told of a loss.
type quitter struct{ guard.NopObserver }

func (quitter) LeaseLost(context.Context, guard.WaitInfo, error) { runtime.Goexit() }

func TestDo_ALeaseThatIsOutlivedEndsWhateverItsObserverDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithObserver(quitter{}), guard.WithMaxHold(0))
		leave := func(ctx context.Context) error {
			_ = must(b.Acquire(ctx, key))
			return nil
		}
		go func() { _ = b.Do(t.Context(), key, leave) }()
		time.Sleep(time.Minute)
		go func() { _ = b.DoAll(t.Context(), []string{"a", key, "z"}, leave) }()
		time.Sleep(time.Minute)
		wantErr(t, b.other.DoAll(t.Context(), []string{"a", key, "z"}, nop), nil)
	}) // Close finds no call left
}
