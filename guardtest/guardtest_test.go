package guardtest_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nop(context.Context) error { return nil }

func TestHeldKeyIsRefusedUntilItsRelease(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	release := g.Hold("k")
	err := g.Do(t.Context(), "k", nop)
	var held *guard.HeldError
	if !errors.As(err, &held) || held.Holder.Name != g.Name() || held.Remaining <= 0 {
		t.Fatalf("Do on a held key: %v (%+v), want a HeldError", err, held)
	}
	if err := g.Do(t.Context(), "other", nop); err != nil {
		t.Fatalf("Do on another key: %v", err)
	}
	release()
	release()
	if err := g.Do(t.Context(), "k", nop); err != nil {
		t.Fatalf("Do after release: %v", err)
	}
}

func TestAReaderElsewhereKeepsOutOnlyExclusiveCalls(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	release := g.Hold("k", guard.WithShared())
	if err := g.Do(t.Context(), "k", nop); !errors.Is(err, guard.ErrNotAcquired) {
		t.Errorf("an exclusive call: %v, want ErrNotAcquired", err)
	}
	if err := g.With(guard.WithShared()).Do(t.Context(), "k", nop); err != nil {
		t.Errorf("a shared call: %v", err)
	}
	release()
	if err := g.Do(t.Context(), "k", nop); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestHeldPermitsAreRefusedUntilOneIsBack(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	two := guard.WithPermits(2)
	export := g.With(two)
	ctx := g.Context(t, "k", two) // a permit of the code under test
	release := g.Hold("k", two)
	if err := export.Do(t.Context(), "k", nop); !errors.Is(err, guard.ErrNotAcquired) {
		t.Errorf("a third permit: %v, want ErrNotAcquired", err)
	}
	if err := export.Do(ctx, "k", nop); err != nil {
		t.Errorf("inside its own permit: %v", err)
	}
	release()
	if err := export.Do(t.Context(), "k", nop); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestHeldKeyStaysHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		g.Hold("k")
		time.Sleep(time.Hour)
		start := time.Now()
		if err := g.Do(t.Context(), "k", nop); !errors.Is(err, guard.ErrNotAcquired) {
			t.Fatalf("Do: %v, want ErrNotAcquired", err)
		}
		if waited := time.Since(start); waited != 3*time.Second {
			t.Fatalf("waited %v, want MaxWait, 3s", waited)
		}
	})
}

// The release of another instance wakes the waiter, so no backoff passes.
func TestWaiterGoesOnAtTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		release := g.Hold("k")
		const heldFor = 777 * time.Millisecond
		time.AfterFunc(heldFor, release)
		start := time.Now()
		if err := g.Do(t.Context(), "k", nop); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != heldFor {
			t.Fatalf("waited %v, want %v", waited, heldFor)
		}
	})
}

func TestHoldWaitsForTheGuardUnderTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		done := make(chan error, 1)
		inside := make(chan struct{})
		go func() { // ends with Do
			done <- g.Do(t.Context(), "k", func(context.Context) error {
				close(inside)
				time.Sleep(time.Second)
				return nil
			})
		}()
		<-inside
		g.Hold("k")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestLostKeyEndsTheLeaseAtItsNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		start := time.Now()
		err := g.Do(t.Context(), "k", func(ctx context.Context) error {
			g.Lose("k")
			g.Hold("k") // anybody can have it now
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Fatalf("Do: %v, want ErrLeaseLost", err)
		}
		if noticed := time.Since(start); noticed > 4*time.Second {
			t.Fatalf("noticed after %v, want about a third of the TTL of 10s", noticed)
		}
	})
}

func TestBrokenLockerIsUnavailableUntilMended(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	mend := g.Break()
	if err := g.Do(t.Context(), "k", nop); !errors.Is(err, guard.ErrUnavailable) {
		t.Fatalf("Do: %v, want ErrUnavailable", err)
	}
	if err := g.Check(t.Context()); !errors.Is(err, guard.ErrUnavailable) {
		t.Fatalf("Check: %v, want ErrUnavailable", err)
	}
	mend()
	if err := g.Do(t.Context(), "k", nop); err != nil {
		t.Fatalf("Do after mend: %v", err)
	}
}

func TestLeaseOutlivesAShortBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		err := g.Do(t.Context(), "k", func(ctx context.Context) error {
			mend := g.Break()
			time.Sleep(8 * time.Second)
			mend()
			time.Sleep(time.Minute / 2)
			return ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestLeaseDoesNotOutliveALongBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		err := g.Do(t.Context(), "k", func(ctx context.Context) error {
			g.Break()
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Fatalf("Do: %v, want ErrLeaseLost", err)
		}
	})
}

func TestContextCarriesALiveLease(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	var ctx context.Context
	t.Run("a test of its own", func(t *testing.T) {
		ctx = g.Context(t, "k")
		if l, ok := guard.LeaseFrom(ctx); !ok || l.Key() != "k" || l.Err() != nil {
			t.Fatalf("LeaseFrom: %v, %v", l, ok)
		}
		first, err := guard.FencingToken(ctx)
		if err != nil || first == 0 {
			t.Fatalf("FencingToken: %d, %v", first, err)
		}
		if err := g.Do(t.Context(), "k", nop); !errors.Is(err, guard.ErrNotAcquired) {
			t.Fatalf("Do from elsewhere: %v, want ErrNotAcquired", err)
		}
		if err := g.Do(ctx, "k", nop); err != nil {
			t.Fatalf("Do inside: %v", err)
		}
	})
	if _, ok := guard.LeaseFrom(ctx); ok || ctx.Err() == nil {
		t.Fatal("the lease outlived its test")
	}
	if err := g.Do(t.Context(), "k", nop); err != nil {
		t.Fatalf("Do afterwards: %v", err)
	}
}

// The tests below are about tests that must fail.

func wantErrors(t *testing.T, r *recorder, want ...string) {
	t.Helper()
	if len(r.errors) != len(want) {
		t.Fatalf("the test was told %q, want %q", r.errors, want)
	}
	for i, e := range r.errors {
		if !strings.Contains(e, want[i]) {
			t.Errorf("the test was told %q, want %q in it", e, want[i])
		}
	}
}

func TestForgottenLeaseFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		g := guardtest.New(r)
		for _, key := range []string{"kept", "also kept", "released"} {
			l, err := g.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if key == "released" {
				_ = l.Release(t.Context())
			}
		}
		r.end()
		wantErrors(t, r, `["also kept" "kept"]`)
	})
}

func TestLateHandlerDoesNotFailTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		g := guardtest.New(r)
		answered := make(chan struct{})
		done := make(chan error, 1)
		go func() { // ends with Do
			done <- g.Do(t.Context(), "k", func(context.Context) error {
				close(answered)
				time.Sleep(time.Second)
				return nil
			})
		}()
		<-answered
		r.end()
		wantErrors(t, r)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestWhatTheTestStagedDoesNotFailIt(t *testing.T) {
	r := newRecorder()
	g := guardtest.New(r)
	g.Hold("held")
	_, _ = g.TryAcquire(t.Context(), "held")
	g.Context(r, "with a lease")
	g.Hold("lost")
	g.Lose("lost")
	_ = g.Do(t.Context(), "lost", nop)
	g.Break()
	r.end()
	wantErrors(t, r)
}

// Such a test would pass without testing anything. Its key is misspelled, or
// the code under test does not lock.
func TestAHeldKeyThatNobodyAskedForFailsTheTest(t *testing.T) {
	r := newRecorder()
	g := guardtest.New(r, guard.WithMaxWait(0))
	g.Hold("stock:47 11")
	g.Hold("early")()
	g.Hold("asked")
	for _, key := range []string{"stock:4711", "asked", "another"} {
		_ = g.With(guard.WithName("route")).Do(t.Context(), key, nop)
	}
	r.end()
	wantErrors(t, r, `nobody asked for ["early" "stock:47 11"], which Hold held, only for ["another" "asked" "stock:4711"]`)
}

func TestATestThatHasFailedIsNotToldOfKeysThatNobodyAskedFor(t *testing.T) {
	r := newRecorder()
	g := guardtest.New(r)
	g.Hold("k")
	r.Errorf("failed before it asked")
	r.end()
	wantErrors(t, r, "failed before it asked")
}

func TestMistakesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.run(func() { guardtest.New(r, guard.WithTTL(0)) })
		wantErrors(t, r, "TTL is 0s")
		r.end()

		r = newRecorder()
		g := guardtest.New(r)
		g.Lose("k")
		wantErrors(t, r, `Lose("k"): nobody holds it`)
		g.Context(r, "k")
		r.run(func() { g.Hold("k") })
		wantErrors(t, r, "Lose", `acquire "k": guard: not acquired`)
		r.run(func() { g.Hold("") })
		wantErrors(t, r, "Lose", `acquire "k"`, "invalid key")
		if !r.fatal {
			t.Error("the test goes on without its key")
		}
		r.end()
	})
}

func TestAnyKeyCanBeLost(t *testing.T) {
	g := guardtest.New(t)
	for _, key := range []string{"a{b}", "50%", strings.Repeat("long", 100)} {
		_ = g.Do(t.Context(), key, func(context.Context) error {
			g.Lose(key) // which fails the test if nobody holds it
			return nil
		})
	}
}

func TestAHeldKeyIsNoOtherService(t *testing.T) {
	var out strings.Builder
	g := guardtest.New(t, guard.WithMaxWait(0), guard.WithName("shop"),
		guard.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
	g.Hold("k")
	for _, asks := range []*guard.Guard{g.Guard, g.With(guard.WithName("refund"))} {
		if err := asks.Do(t.Context(), "k", func(context.Context) error { return nil }); !errors.Is(err,
			guard.ErrNotAcquired) {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("logged %s", &out)
	}
}
