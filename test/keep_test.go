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
	"github.com/go-lockguard/guard/locker/memlocker"
)

// wantFree waits for key on each guard in turn. It checks how long after start
// the first guard got it.
func wantFree(t *testing.T, start time.Time, after time.Duration, gs ...*guard.Guard) {
	t.Helper()
	for _, g := range gs {
		if err := g.With(guard.WithMaxWait(time.Hour), guard.WithMinHold(0)).Do(t.Context(), key, nop); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != after {
			t.Errorf("free after %v, want %v", d, after)
		}
	}
}

func TestDo_MinHoldKeepsTheKeyAndNotTheCaller(t *testing.T) {
	for name, d := range map[string]time.Duration{
		"within the tenure": 50 * time.Millisecond,
		"within the TTL":    5 * time.Second, "beyond it": time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, guard.WithMinHold(d))
				own, start := errors.New("own"), time.Now()
				var under context.Context
				err := b.Do(t.Context(), key, func(ctx context.Context) error { under = ctx; return own })
				if !errors.Is(err, own) || time.Since(start) != 0 {
					t.Errorf("got %v after %v, want the function's error at once", err, time.Since(start))
				}
				if under.Err() == nil {
					t.Error("the function's context has not ended")
				}
				for time.Since(start) < d-time.Millisecond {
					for _, g := range []*guard.Guard{b.Guard, b.other} {
						if ran, err := g.TryDo(under, key, nop); ran && err == nil {
							t.Fatalf("another ran after %v", time.Since(start))
						}
						if ran, err := g.TryDo(t.Context(), key, nop); ran || err != nil {
							t.Fatalf("after %v: ran %t, %v", time.Since(start), ran, err)
						}
					}
					time.Sleep(min(time.Second, d/10))
				}
				wantFree(t, start, d, b.Guard, b.other)
			})
		})
	}
}

func TestDo_MinHoldHandsTheKeyToWhoWaits(t *testing.T) {
	for name, local := range map[string]bool{"here": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				start := time.Now()
				l := must(b.With(guard.WithMinHold(20*time.Second)).Acquire(t.Context(), key))
				next := b.other
				if local {
					next = b.Guard
				}
				var wg sync.WaitGroup
				wg.Go(func() { wantFree(t, start, 20*time.Second, next) })
				synctest.Wait()
				time.Sleep(2 * time.Second)
				if err := l.Release(t.Context()); err != nil || time.Since(start) != 2*time.Second {
					t.Errorf("Release: %v after %v", err, time.Since(start))
				}
				wg.Wait()
				if got, want := b.spy.releases.Load(), int64(1); !local && got != want {
					t.Errorf("%d releases, want %d", got, want)
				}
			})
		})
	}
}

func TestDo_WhoLeavesInTheCooldownOfMinHoldLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMinHold(20*time.Second), guard.WithMaxWait(time.Second))
		start := time.Now()
		wantErr(t, b.Do(t.Context(), key, nop), nil)
		var wg sync.WaitGroup
		for _, g := range []*guard.Guard{b.Guard, b.Guard, b.other, b.other} {
			wg.Go(func() { // in line
				if err := g.Do(t.Context(), key, nop); !errors.Is(err, guard.ErrNotAcquired) {
					t.Errorf("in the cooldown: %v", err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if s := must(b.mem.Inspect(t.Context(), key)); len(s.Waiters) > 0 {
			t.Errorf("%d claims are left in line", len(s.Waiters))
		}
		wantFree(t, start, 20*time.Second, b.Guard, b.other)
	})
}

func TestDo_MinHoldIsOverWhenTheFunctionTakesLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMinHold(time.Second))
		start := time.Now()
		_ = b.Do(t.Context(), key, func(ctx context.Context) error {
			time.Sleep(2 * time.Second)
			return b.With(guard.WithMinHold(time.Hour)).Do(ctx, key, nop) // inside, it does not count
		})
		wantFree(t, start, 2*time.Second, b.other, b.Guard)
	})
}

func TestDo_MinHoldOnSuccessFreesTheKeyOfWhatFailed(t *testing.T) {
	own := errors.New("own")
	keep := guard.WithMinHold(5*time.Second, guard.OnSuccess)
	for name, c := range map[string]struct {
		run  func(ctx context.Context, b *bench) error
		kept bool
	}{
		"nil": {func(ctx context.Context, b *bench) error { return b.Do(ctx, key, nop) }, true},
		"error": {func(ctx context.Context, b *bench) error {
			return b.Do(ctx, key, func(context.Context) error { return own })
		}, false},
		"panic": {func(ctx context.Context, b *bench) error {
			defer func() { _ = recover() }()
			return b.Do(ctx, key, func(context.Context) error { panic(own) })
		}, false},
		"Goexit": {func(ctx context.Context, b *bench) error {
			var wg sync.WaitGroup
			wg.Go(func() { _ = b.Do(ctx, key, func(context.Context) error { runtime.Goexit(); return nil }) })
			wg.Wait()
			return nil
		}, false},
		"TryDo": {func(ctx context.Context, b *bench) error {
			_, err := b.TryDo(ctx, key, func(context.Context) error { return own })
			return err
		}, false},
		"several keys": {func(ctx context.Context, b *bench) error {
			return b.DoAll(ctx, []string{key, "z"}, nop)
		}, true},
		"several keys, failed": {func(ctx context.Context, b *bench) error {
			return b.DoAll(ctx, []string{key, "z"}, func(context.Context) error { return own })
		}, false},
		"a call inside that fails": {func(ctx context.Context, b *bench) error {
			return b.Do(ctx, key, func(ctx context.Context) error {
				_ = b.Do(ctx, key, func(context.Context) error { return own })
				return nil
			})
		}, true},
		"a lease": {func(ctx context.Context, b *bench) error { return must(b.Acquire(ctx, key)).Release(ctx) }, true},
		"and without": {func(ctx context.Context, b *bench) error {
			return b.With(guard.WithMinHold(0)).Do(ctx, key, nop)
		}, false},
		"and whatever the result": {func(ctx context.Context, b *bench) error {
			return b.With(guard.WithMinHold(5*time.Second)).Do(ctx, key, func(context.Context) error { return own })
		}, true},
		"and whatever the result, a panic": {func(ctx context.Context, b *bench) error {
			defer func() { _ = recover() }()
			return b.With(guard.WithMinHold(5*time.Second)).Do(ctx, key, func(context.Context) error { panic(own) })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, keep)
				start := time.Now()
				if err := c.run(t.Context(), b); err != nil && !errors.Is(err, own) {
					t.Fatal(err)
				}
				want := time.Duration(0)
				if c.kept {
					want = 5 * time.Second
				}
				wantFree(t, start, want, b.other, b.Guard)
			})
		})
	}
	_, err := guard.New(memlocker.New(), guard.WithMinHold(time.Second, 7))
	wantErr(t, err, guard.ErrInvalidOption)
}

// A call that is refused because of MinHold is told when that ends. That holds
// in this process and in another process of the same name.
func TestDo_ARefusalKnowsWhatIsLeftOfMinHold(t *testing.T) {
	const d = 30 * time.Second
	for name, far := range map[string]bool{"here": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				keep := []guard.Option{guard.WithMinHold(d), guard.WithMaxWait(0), guard.WithName("pay")}
				next := b.With(keep...)
				if far {
					next = b.other.With(keep...)
				}
				wantAfter := func(after time.Duration) {
					t.Helper()
					var held *guard.HeldError
					err := next.Do(t.Context(), key, nop)
					if !errors.As(err, &held) || held.RetryAfter() != after || held.Cooldown != after {
						t.Errorf("got %v, want one to be tried again after %v", err, after)
					}
				}
				err := b.With(keep...).Do(t.Context(), key, func(context.Context) error {
					time.Sleep(5 * time.Second)
					wantAfter(d - 5*time.Second)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				wantAfter(5 * time.Second)
				if !far { // the other process does not know how long the holder had waited
					next = next.With(guard.WithMaxWait(3 * time.Second))
					wantAfter(2 * time.Second) // even though a call waits longer in vain
				}
			})
		})
	}
}

func TestDo_AFullQueueKnowsWhatIsLeftOfMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMinHold(30*time.Second), guard.WithMaxWaiters(1), guard.WithMaxWait(time.Hour))
		if err := b.Do(t.Context(), key, nop); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = b.Do(t.Context(), key, nop) })
		synctest.Wait()
		var known interface{ RetryAfter() time.Duration }
		err := b.Do(t.Context(), key, nop)
		if !errors.Is(err, guard.ErrQueueFull) || !errors.As(err, &known) || known.RetryAfter() < 30*time.Second {
			t.Errorf("got %v", err)
		}
		wg.Wait()
	})
}

func TestDo_MinHoldKeepsAllKeysOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMinHold(5*time.Second))
		start := time.Now()
		if err := b.DoAll(t.Context(), []string{key, "z"}, nop); err != nil || time.Since(start) != 0 {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		ran, err := b.other.TryDo(t.Context(), "z", nop)
		if ran || err != nil {
			t.Errorf("ran %t, %v", ran, err)
		}
		wantFree(t, start, 5*time.Second, b.other)

		l := must(b.other.With(guard.WithMinHold(0)).Acquire(t.Context(), "z"))
		wantErr(t, b.With(guard.WithMaxWait(0)).DoAll(t.Context(), []string{key, "z"}, nop), guard.ErrNotAcquired)
		synctest.Wait() // an unused grant is given back in the background
		wantFree(t, start, 5*time.Second, b.other)
		_ = l.Release(t.Context())
	})
}

func TestClose_LeavesAKeyOfMinHoldToItsTTL(t *testing.T) {
	for name, busy := range map[string]bool{"idle": false, "with a function that runs on": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memlocker.New()
				g, other := must(guard.New(mem, guard.WithMinHold(time.Hour), guard.WithMaxHold(0))),
					newGuard(t, mem.Peer())
				if err := g.Do(t.Context(), key, nop); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				done := make(chan struct{})
				if busy {
					go func() {
						defer close(done)
						_ = g.Do(t.Context(), "other", func(ctx context.Context) error { <-ctx.Done(); return nil })
					}()
					synctest.Wait()
				} else {
					close(done)
				}
				start := time.Now()
				if err := g.Close(ctx); busy != errors.Is(err, context.DeadlineExceeded) ||
					(!busy && time.Since(start) != 0) {
					t.Errorf("Close: %v after %v", err, time.Since(start))
				}
				closed := time.Now()
				if ran, err := other.TryDo(t.Context(), key, nop); ran || err != nil {
					t.Errorf("ran %t, %v", ran, err)
				}
				if err := other.With(guard.WithMaxWait(time.Hour)).Do(t.Context(), key, nop); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(closed); d > 10*time.Second || d < 5*time.Second {
					t.Errorf("free %v after Close", d)
				}
				<-done
			})
		})
	}
}

func TestDo_AKeptKeyThatIsLostLetsOthersTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMinHold(time.Minute))
		if err := b.Do(t.Context(), key, nop); err != nil {
			t.Fatal(err)
		}
		b.mem.Lose(key)
		time.Sleep(5 * time.Second) // the next renewal finds the loss
		start := time.Now()
		wantFree(t, start, 0, b.Guard, b.other)
		time.Sleep(2 * time.Minute)
		wantFree(t, start, 2*time.Minute, b.Guard, b.other)
	})
}

func TestDo_MinHoldCannotOutlastALeaseThatIsNotRenewed(t *testing.T) {
	bad := []guard.Option{guard.WithMinHold(11 * time.Second), guard.WithoutRenewal()}
	_, err := guard.New(memlocker.New(), bad...)
	wantErr(t, err, guard.ErrInvalidOption)
	_, err = guard.New(memlocker.New(), guard.WithMinHold(-1))
	wantErr(t, err, guard.ErrInvalidOption)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMinHold(10*time.Second), guard.WithoutRenewal())
		start := time.Now()
		_ = b.Do(t.Context(), key, nop)
		wantFree(t, start, 10*time.Second, b.other) // after the TTL, even though the lease is trusted for less
		if n := b.spy.renewals.Load(); n != 0 {
			t.Errorf("%d renewals", n)
		}
	})
}
