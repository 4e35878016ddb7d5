package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// trustOf10s is the rest of a TTL of 10 s after drift (1 %) and margin (5 %).
const trustOf10s = 9400 * time.Millisecond

func TestDo_RenewalKeepsALongFunctionsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(0))
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			for range 60 {
				time.Sleep(time.Second)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if _, err := b.other.TryAcquire(t.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
					t.Errorf("another got in: %v", err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := b.spy.renewals.Load(); n < 16 || n > 21 { // one every 3.0 to 3.7 s
			t.Errorf("%d renewals in 60 s", n)
		}
	})
}

func TestDo_ContextEndsBeforeTheKeyExpiresWhenTheStoreIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		l := must(b.Acquire(t.Context(), key))
		time.Sleep(20 * time.Second) // some renewals
		mend := b.mem.Break()
		b.spy.mu.Lock()
		last := b.spy.renewedAt
		b.spy.mu.Unlock()
		<-l.Context().Done()
		wantErr(t, context.Cause(l.Context()), guard.ErrLeaseLost)
		if d := time.Since(last); d != trustOf10s {
			t.Errorf("ended %v after the last good renewal, want %v", d, trustOf10s)
		}
		wantErr(t, l.Err(), guard.ErrLeaseLost)
		mend()
		if _, err := b.other.TryAcquire(t.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
			t.Errorf("the key was free before the context ended: %v", err)
		}
		wantErr(t, l.Release(t.Context()), guard.ErrLeaseLost)
		wantErr(t, l.Release(t.Context()), guard.ErrLeaseLost) // the same again
	})
}

func TestDo_AHungRenewalDoesNotDelayTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		start := time.Now()
		l := must(b.Acquire(t.Context(), key))
		b.spy.set(func(s *spy) { s.renew = hangRenew })
		<-l.Context().Done()
		if d := time.Since(start); d != trustOf10s {
			t.Errorf("ended after %v, want %v", d, trustOf10s)
		}
		if n := b.spy.renewals.Load(); n < 3 {
			t.Errorf("%d tries to renew: one hung and no other was made", n)
		}
		wantErr(t, l.Release(t.Context()), guard.ErrLeaseLost)
	})
}

func TestDo_ATransientRenewalFailureCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		err := b.Do(t.Context(), key, func(context.Context) error {
			for range 5 {
				time.Sleep(3500 * time.Millisecond)
				mend := b.mem.Break()
				time.Sleep(4 * time.Second)
				mend()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestDo_ALostLeaseReportsBothErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		own := errors.New("own")
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			b.mem.Lose(key)
			<-ctx.Done() // at the next renewal
			return own
		})
		wantErr(t, err, guard.ErrLeaseLost, own)
		err = b.Do(t.Context(), key, func(context.Context) error { b.mem.Lose(key); return nil })
		wantErr(t, err, guard.ErrLeaseLost) // only the release has noticed
		err = b.Do(t.Context(), "outer", func(ctx context.Context) error {
			return b.Do(ctx, key, func(context.Context) error { b.mem.Lose("outer"); b.mem.Lose(key); return nil })
		})
		wantErr(t, err, guard.ErrLeaseLost)
		if strings.Count(err.Error(), "lease lost") != 1 {
			t.Errorf("%v: want it once", err)
		}
	})
}

func TestDo_AnUnconfirmedReleaseIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var mend func()
		err := b.Do(t.Context(), key, func(context.Context) error { mend = b.mem.Break(); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if b.spy.claimsGivenUp() != 1 {
			t.Error("nobody will clean up")
		}
		mend()
		l, err := b.other.With(guard.WithMaxWait(11*time.Second)).Acquire(t.Context(), key)
		if err != nil {
			t.Fatalf("the key outlived its TTL: %v", err)
		}
		_ = l.Release(t.Context())
	})
}

func TestDo_AReleaseThatTheStoreRefusesIsNoError(t *testing.T) {
	for _, refusal := range []error{errors.New("a newer version"), guard.ErrClosed} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.spy.set(func(s *spy) {
				s.release = func(context.Context, func() (locker.Released, error)) (locker.Released, error) {
					return locker.Released{}, refusal
				}
			})
			wantErr(t, b.Do(t.Context(), "a", nop), nil)
			own := errors.New("own")
			if err := b.Do(t.Context(), "b", func(context.Context) error { return own }); !errors.Is(err, own) ||
				errors.Is(err, refusal) {
				t.Errorf("Do: %v, want fn's own error alone", err)
			}
			wantErr(t, b.DoAll(t.Context(), []string{"c", "d"}, nop), nil)
			l := must(b.Acquire(t.Context(), "e"))
			if err := l.Release(t.Context()); !errors.Is(err, refusal) ||
				!errors.Is(err, guard.ErrUnavailable) && !errors.Is(err, guard.ErrClosed) {
				t.Errorf("Release: %v, want one of the guard's errors that wraps %v", err, refusal)
			}
		})
	}
}

func TestDo_WithoutRenewalTheLeaseEndsBeforeItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithoutRenewal())
		start := time.Now()
		err := b.Do(t.Context(), key, func(ctx context.Context) error { <-ctx.Done(); return nil })
		wantErr(t, err, guard.ErrLeaseLost)
		if d := time.Since(start); d != trustOf10s || b.spy.renewals.Load() != 0 {
			t.Errorf("ended after %v with %d renewals, want %v and none", d, b.spy.renewals.Load(), trustOf10s)
		}
	})
}

func TestDo_MaxHoldEndsTheTurnAndLetsTheNextIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(20*time.Second), guard.WithMaxWait(time.Minute))
		hang := make(chan struct{})
		start := time.Now()
		done := make(chan error)
		go func() {
			done <- b.Do(t.Context(), key, func(ctx context.Context) error {
				<-ctx.Done()
				if d := time.Since(start); d != 20*time.Second {
					t.Errorf("context ended after %v", d)
				}
				<-hang // a handler that ignores its context
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		if err := b.Do(t.Context(), key, nop); err != nil { // a local waiter runs while the handler hangs
			t.Fatal(err)
		}
		if d := time.Since(start); d < 20*time.Second || d > 31*time.Second {
			t.Errorf("the next got in after %v", d)
		}
		close(hang)
		wantErr(t, <-done, guard.ErrMaxHold, guard.ErrLeaseLost)
	})
}

func TestRelease_AReleaseAfterMaxHoldFreesTheKeyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(2*time.Second))
		err := b.Do(t.Context(), key, func(ctx context.Context) error { <-ctx.Done(); return nil })
		wantErr(t, err, guard.ErrMaxHold)
		synctest.Wait()
		if err := b.other.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDo_AHungStoreBoundsEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.spy.set(func(s *spy) {
			s.acquire = hangAcquire
			s.release = func(ctx context.Context, _ releases) (locker.Released, error) {
				<-ctx.Done()
				return locker.Released{}, guard.ErrUnavailable
			}
		})
		for wait, most := range map[time.Duration]time.Duration{
			0:                      500 * time.Millisecond, // the try limit
			200 * time.Millisecond: 500 * time.Millisecond,
			3 * time.Second:        3050 * time.Millisecond,
		} {
			start := time.Now()
			err := b.With(guard.WithMaxWait(wait)).Do(t.Context(), key, nop)
			wantErr(t, err, guard.ErrUnavailable)
			if d := time.Since(start); d > most {
				t.Errorf("MaxWait %v: returned after %v", wait, d)
			}
		}
		if b.spy.claimsGivenUp() != 3 {
			t.Errorf("%d of 3 unclear claims are cleaned up", b.spy.claimsGivenUp())
		}
		b.spy.set(func(s *spy) { s.acquire = nil })
		var released time.Time
		_ = b.Do(t.Context(), key, func(context.Context) error { released = time.Now(); return nil })
		if d := time.Since(released); d > time.Second || d < 900*time.Millisecond {
			t.Errorf("the release took %v, want its limit of 1s, or a little less", d)
		}
	})
}

func TestDo_APermanentErrorFailsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		own := errors.New("NOPERM")
		b.spy.set(func(s *spy) { s.acquire = refuse(own) })
		start := time.Now()
		wantErr(t, b.Do(t.Context(), key, nop), guard.ErrUnavailable, own)
		if time.Since(start) != 0 {
			t.Errorf("took %v", time.Since(start))
		}
	})
}
