package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestClose_TurnsWaitersAwayAndWaitsForHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		elsewhere := must(b.other.Acquire(t.Context(), "elsewhere"))
		var wg sync.WaitGroup
		start := time.Now()
		wg.Go(func() {
			err := b.Do(t.Context(), key, func(ctx context.Context) error {
				time.Sleep(2 * time.Second)
				return b.Do(ctx, key, nop) // still works
			})
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for _, k := range []string{key, "elsewhere"} { // one call in line, and one that contends
			wg.Go(func() {
				wantErr(t, b.Do(t.Context(), k, nop), guard.ErrClosed)
				if d := time.Since(start); d != time.Second {
					t.Errorf("turned away after %v", d)
				}
			})
		}
		time.Sleep(time.Second)
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("closed after %v", d)
		}
		wg.Wait()
		wantErr(t, b.Do(t.Context(), key, nop), guard.ErrClosed)
		wantErr(t, b.With(guard.WithName("copy")).Do(t.Context(), key, nop), guard.ErrClosed)
		wantErr(t, b.Check(t.Context()), guard.ErrClosed)
		if err := b.Close(t.Context()); err != nil {
			t.Fatalf("the second Close: %v", err)
		}
		_ = elsewhere.Release(t.Context())
	})
}

func TestClose_ThatCannotWaitLeavesTheKeyToItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		g := must(guard.New(mem))
		other := newGuard(t, mem.Peer())
		hang, done := make(chan struct{}), make(chan error)
		go func() {
			done <- g.Do(t.Context(), key, func(ctx context.Context) error {
				<-ctx.Done()
				<-hang
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, g.Close(ctx), context.DeadlineExceeded)
		if _, err := other.TryAcquire(t.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
			t.Errorf("the key was released under a running function: %v", err)
		}
		close(hang)
		wantErr(t, <-done, guard.ErrClosed, guard.ErrLeaseLost)
		if _, err := other.TryAcquire(t.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
			t.Errorf("the key was released after Close: %v", err)
		}
		l, err := other.With(guard.WithMaxWait(11*time.Second)).Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Release(t.Context())
	})
}

func TestClose_AndCallsRaceToACleanEnd(t *testing.T) {
	for range 50 {
		g := must(guard.New(memlocker.New()))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					if err := g.Do(t.Context(), key, nop); err != nil {
						if !errors.Is(err, guard.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		wg.Go(func() { _ = g.Close(t.Context()) })
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

// A release gives up on a renewal that hangs. Close does not.
func TestClose_WaitsForRenewalsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan struct{}, 1)
		b := newBench(t, guard.WithTTL(60*time.Second), guard.WithObserver(renewed{tell: func() {
			time.Sleep(time.Second)
			seen <- struct{}{}
		}}))
		l := must(b.Acquire(t.Context(), key))
		b.spy.set(func(s *spy) { s.renew = hangRenew })
		for b.spy.renewals.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		start := time.Now()
		wantErr(t, l.Release(t.Context()), guard.ErrUnavailable)
		if d := time.Since(start); d > time.Second || d < 900*time.Millisecond {
			t.Errorf("the release took %v", d)
		}
		wantErr(t, b.other.Do(t.Context(), key, nop), nil) // somebody has cleaned up

		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-seen:
		default:
			t.Error("Close returned before an observer of a renewal had")
		}
	})
}

// Close waits no longer than its context lives.
func TestClose_WaitsForNoRenewalBeyondItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		b := newBench(t, guard.WithObserver(renewed{tell: func() { <-hang }}))
		l := must(b.Acquire(t.Context(), key))
		for b.spy.renewals.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("took %v, want 2s", d)
		}
		close(hang)
	})
}

// renewed is an observer of renewals.
type renewed struct {
	guard.NopObserver
	tell func()
}

func (r renewed) Renewed(context.Context, guard.WaitInfo, guard.RenewResult) { r.tell() }
