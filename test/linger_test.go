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
)

const linger = 500 * time.Millisecond

// lingering returns a bench whose guard keeps key, idle.
func lingering(t *testing.T, opts ...guard.Option) *bench {
	t.Helper()
	b := newBench(t, append([]guard.Option{guard.WithLinger(linger)}, opts...)...)
	b.settle(t, b.Guard)
	return b
}

// settle calls Do until the key lingers.
func (b *bench) settle(t *testing.T, g *guard.Guard) {
	t.Helper()
	for range 5 {
		if err := g.Do(t.Context(), key, nop); err != nil {
			t.Fatal(err)
		}
	}
	if !idle(t, g) {
		t.Fatal("the key does not linger")
	}
}

func (b *bench) idle(t *testing.T) bool {
	t.Helper()
	return idle(t, b.Guard)
}

func idle(t *testing.T, g *guard.Guard) bool {
	t.Helper()
	for _, s := range g.Snapshot(false) {
		for _, h := range s.Holds {
			if h.Idle {
				return true
			}
		}
	}
	return false
}

// soon checks that f takes no longer than most of virtual time.
func soon(t *testing.T, what string, most time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if d := time.Since(start); d > most {
		t.Errorf("%s took %v, want %v at most", what, d, most)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestLinger_AnIdleKeyNeedsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		acquires, releases := b.spy.acquires.Load(), b.spy.releases.Load()
		for range 1000 {
			ok(t, b.Do(t.Context(), key, nop))
			ran, err := b.TryDo(t.Context(), key, nop)
			if !ran || err != nil {
				t.Fatal(ran, err)
			}
		}
		if a, r := b.spy.acquires.Load()-acquires, b.spy.releases.Load()-releases; a+r+b.spy.renewals.Load() != 0 {
			t.Errorf("%d acquires, %d releases, %d renewals", a, r, b.spy.renewals.Load())
		}
		s := must(b.mem.Inspect(t.Context(), key))
		if !s.Held {
			t.Errorf("the store says %+v", s)
		}
		time.Sleep(linger - time.Millisecond)
		if !must(b.mem.Inspect(t.Context(), key)).Held {
			t.Error("released too early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if must(b.mem.Inspect(t.Context(), key)).Held || b.idle(t) || len(b.Snapshot(false)) != 0 {
			t.Error("not released")
		}
		if n := b.spy.renewals.Load(); n != 0 {
			t.Errorf("%d renewals", n)
		}
	})
}

func TestLinger_ATenureEndsAndIsNeverRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		var last time.Duration
		for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
			ok(t, b.Do(t.Context(), key, sleeps(5*time.Millisecond)))
			last = must(b.mem.Inspect(t.Context(), key)).Remaining
			if last > 10*time.Second/3 {
				t.Fatalf("a crash now would cost %v", last)
			}
		}
		time.Sleep(3 * time.Second) // the tenure ends
		start := time.Now()
		for b.settle(t, b.Guard); time.Since(start) < 1600*time.Millisecond; time.Sleep(10 * time.Millisecond) {
			ok(t, b.Do(t.Context(), key, nop))
		}
		time.Sleep(100 * time.Millisecond) // the tenure is over, the time of WithLinger is not
		if b.idle(t) {
			t.Error("a key is idle after its tenure")
		}
		if n := b.spy.renewals.Load(); n != 0 {
			t.Errorf("%d renewals", n)
		}
		if n := b.spy.acquires.Load(); n > 20 {
			t.Errorf("%d acquires in 20 s", n)
		}
	})
}

func TestLinger_AnotherProcessGetsAnIdleKeyAtOnce(t *testing.T) {
	for name, f := range map[string]func(b *bench, ctx context.Context) error{
		"Do": func(b *bench, ctx context.Context) error { return b.other.Do(ctx, key, nop) },
		"TryDo": func(b *bench, ctx context.Context) error {
			if ran, err := b.other.TryDo(ctx, key, nop); !ran || err != nil {
				return fmt.Errorf("ran %t, %w", ran, err)
			}
			return nil
		},
		"MaxWait 0": func(b *bench, ctx context.Context) error {
			return b.other.With(guard.WithMaxWait(0)).Do(ctx, key, nop)
		},
		"TryAcquire": func(b *bench, ctx context.Context) error {
			l, err := b.other.TryAcquire(ctx, key)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		},
		"DoAll": func(b *bench, ctx context.Context) error {
			return b.other.DoAll(ctx, []string{"a", key, "z"}, nop)
		},
		"DoAll, MaxWait 0": func(b *bench, ctx context.Context) error {
			return b.other.With(guard.WithMaxWait(0)).DoAll(ctx, []string{"a", key, "z"}, nop)
		},
		"shared": func(b *bench, ctx context.Context) error {
			return b.other.With(guard.WithShared()).Do(ctx, key, nop)
		},
		"shared, MaxWait 0": func(b *bench, ctx context.Context) error {
			return b.other.With(guard.WithShared(), guard.WithMaxWait(0)).Do(ctx, key, nop)
		},
		"permits": func(b *bench, ctx context.Context) error {
			return b.other.With(guard.WithPermits(3)).Do(ctx, key, nop)
		},
		"Once": func(b *bench, ctx context.Context) error {
			_, err := guard.Once(ctx, b.other, key, time.Minute, func(context.Context) (int, error) { return 1, nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := lingering(t)
				soon(t, name, 0, func() { ok(t, f(b, t.Context())) })
			})
		})
		t.Run(name+" here", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.other = newGuard(t, b.mem.Peer(), guard.WithLinger(linger)) // without a spy, which keeps no results
				b.settle(t, b.other)
				soon(t, name, 0, func() { ok(t, f(b, t.Context())) })
				soon(t, "after "+name, 0, func() { ok(t, b.other.Do(t.Context(), key, nop)) })
			})
		})
	}
}

func TestLinger_ATryElsewhereIsRefusedSoonIfAFunctionRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		ok(t, b.Do(t.Context(), key, func(context.Context) error {
			soon(t, "TryDo", 50*time.Millisecond, func() {
				if ran, err := b.other.TryDo(t.Context(), key, nop); ran || err != nil {
					t.Error(ran, err)
				}
			})
			return nil
		}))
		time.Sleep(5 * time.Second) // nothing is left of the try
		if s := must(b.mem.Inspect(t.Context(), key)); s.Held || s.Waiting > 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestClose_FreesIdleKeys(t *testing.T) {
	for name, hangs := range map[string]bool{"clean": false, "a call hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := lingering(t)
				ctx, cancel := context.WithTimeout(t.Context(), linger/5)
				defer cancel()
				stop := make(chan struct{})
				if hangs {
					go func() { _ = b.Do(t.Context(), "hangs", func(context.Context) error { <-stop; return nil }) }()
					synctest.Wait()
					ok(t, b.Do(t.Context(), key, nop))
				}
				_ = b.Close(ctx)
				if must(b.other.Inspect(t.Context(), key)).Held {
					t.Error("still held")
				}
				close(stop)
			})
		})
	}
}

// busy calls Do again and again until stop is called.
func busy(t *testing.T, g *guard.Guard) (stop func()) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = g.Do(t.Context(), key, sleeps(time.Millisecond))
			}
		}
	}()
	return func() { close(over) }
}

func TestLinger_ALostMessageCostsALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		mend := b.mem.Deafen(false)
		var wg sync.WaitGroup
		soon(t, "Do", locker.LookEvery, func() {
			wg.Go(func() { ok(t, b.other.Do(t.Context(), key, nop)) })
			synctest.Wait()
			mend()
			stop := busy(t, b.Guard) // the owner
			wg.Wait()
			stop()
		})
	})
}

func TestLinger_AConnectionThatIsDeadUnnoticedCostsATenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		defer b.mem.Deafen(false)()
		for range 2 { // the owner is busy, and somebody always stands in line
			defer busy(t, b.Guard)()
		}
		soon(t, "Do", 10*time.Second/6+10*time.Millisecond, func() { ok(t, b.other.Do(t.Context(), key, nop)) })
	})
}

// A try looks once more at its end, because the message that it has the key may
// be lost.
func TestTryDo_TakesAnIdleKeyWithoutAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		deaf := b.mem.Peer()
		other := newGuard(t, deaf)
		defer deaf.Deafen(false)()
		soon(t, "TryDo", 50*time.Millisecond, func() {
			if ran, err := other.TryDo(t.Context(), key, nop); !ran || err != nil {
				t.Error(ran, err)
			}
		})
	})
}

func TestLinger_MaxHoldHoldsOnAnIdleKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		soon(t, "Do", 30*time.Millisecond, func() {
			wantErr(t, b.With(guard.WithMaxHold(30*time.Millisecond)).Do(t.Context(), key,
				func(ctx context.Context) error { <-ctx.Done(); return nil }), guard.ErrMaxHold)
		})
	})
}

func TestLinger_ALostKeyIsUsedForHalfAnOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		b.mem.Lose(key)
		start := time.Now()
		ok(t, b.other.Do(t.Context(), key, func(context.Context) error {
			for ; time.Since(start) < 5*time.Second; time.Sleep(time.Millisecond) {
				if ran, err := b.TryDo(t.Context(), key, nop); !ran && err == nil {
					break
				}
			}
			return nil
		}))
		t.Log("two at once for", time.Since(start))
		if d := time.Since(start); d > 10*time.Second/6+time.Millisecond {
			t.Errorf("two at once for %v", d)
		}
	})
}

func TestTryDo_IsNotRefusedWhileAnIdleKeyIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		b.spy.set(func(s *spy) {
			s.release = func(_ context.Context, next releases) (locker.Released, error) {
				time.Sleep(20 * time.Millisecond)
				return next()
			}
		})
		time.Sleep(linger + time.Millisecond)
		soon(t, "TryDo", 20*time.Millisecond, func() {
			if ran, err := b.TryDo(t.Context(), key, nop); !ran || err != nil {
				t.Error(ran, err)
			}
		})
		ok(t, b.Do(t.Context(), key, nop))
		b.spy.set(func(s *spy) { s.release = nil })
	})
}

func TestLinger_TokensIncrease(t *testing.T) {
	for name, opts := range map[string][]guard.Option{"fetched": nil, "reserved": {guard.WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := lingering(t, opts...)
				var last uint64
				take := func(g *guard.Guard) {
					ok(t, g.Do(t.Context(), key, func(ctx context.Context) error {
						token, err := guard.FencingToken(ctx)
						if err != nil || token <= last {
							return fmt.Errorf("token %d after %d, %w", token, last, err)
						}
						last = token
						return nil
					}))
				}
				for range 5 {
					for range 200 {
						take(b.Guard)
					}
					take(b.other)
				}
				if n := b.spy.fences.Load(); opts != nil && n > 0 {
					t.Errorf("%d requests for tokens that WithFencing fetches with the key", n)
				}
			})
		})
	}
}

func TestLinger_SettingsThatTurnItOff(t *testing.T) {
	for name, o := range map[string]guard.Option{
		"MinHold": guard.WithMinHold(10 * time.Millisecond), "WithoutRenewal": guard.WithoutRenewal(),
		"permits": guard.WithPermits(2), "shared": guard.WithShared(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, guard.WithLinger(linger))
				g := b.With(o)
				for range 10 {
					ok(t, g.Do(t.Context(), key, nop))
				}
				time.Sleep(11 * time.Millisecond)
				if b.idle(t) || must(b.mem.Inspect(t.Context(), key)).Held {
					t.Error("it lingers")
				}
			})
		})
	}
}

// A leader steps down at once, and is told of a loss in any case.
func TestLead_DoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithLinger(linger))
		for range 10 {
			ok(t, b.Lead(t.Context(), key, nop))
			if b.idle(t) || must(b.mem.Inspect(t.Context(), key)).Held {
				t.Fatal("it lingers")
			}
		}
		b.settle(t, b.Guard)
		wantErr(t, b.Lead(t.Context(), key, func(context.Context) error {
			b.mem.Lose(key)
			return nil
		}), guard.ErrLeaseLost)
	})
}

// A waits notes how waits ended.
type waits struct {
	guard.NopObserver
	results []guard.WaitResult
}

func (w *waits) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) {
	w.results = append(w.results, r)
}

func TestObserver_TellsATurnOnAnIdleKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waits{}
		b := newBench(t, guard.WithLinger(linger), guard.WithObserver(w))
		b.settle(t, b.Guard)
		before := w.results[0]
		ok(t, b.Do(t.Context(), key, nop))
		after := w.results[len(w.results)-1]
		if before.Idle || !after.Idle || !after.Handoff || after.Attempts != 0 || after.Blocker != before.Blocker {
			t.Errorf("a turn with a request ended with %+v, one on an idle key with %+v", before, after)
		}
	})
}

// A loss that only the release could have noticed is told to nobody, as the
// option says. A call with another request hears of it.
func TestLinger_ALossThatOnlyTheReleaseCouldNoticeIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		ok(t, b.Do(t.Context(), key, func(context.Context) error {
			b.mem.Lose(key)
			return nil
		}))
		if !b.idle(t) {
			t.Error("the key is not idle")
		}
		err := b.Do(t.Context(), key, sleeps(time.Second))
		wantErr(t, err, guard.ErrLeaseLost)
	})
}

func TestLinger_ATurnLateInAShortLeaseIsRenewed(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, 120 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, guard.WithTTL(ttl), guard.WithLinger(ttl/2))
			b.settle(t, b.Guard)
			time.Sleep(ttl / 2 * 9 / 10)
			ok(t, b.Do(t.Context(), key, sleeps(3*ttl)))
		})
	}
}

func TestLinger_ACallThatEndsBeforeItsTurnLeavesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lingering(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, b.Do(ctx, key, nop), context.Canceled)
		if n := b.spy.claimsGivenUp(); n != 0 || !b.idle(t) {
			t.Errorf("%d keys are given up", n)
		}
	})
}

func TestClose_LeavesIdleKeysToASlowStoreWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithLinger(linger))
		for i := range 4 * 5 * locker.MaxSeveral {
			ok(t, b.Do(t.Context(), fmt.Sprint("k", i/4), nop))
		}
		b.spy.set(func(s *spy) {
			s.release = func(_ context.Context, next releases) (locker.Released, error) {
				time.Sleep(400 * time.Millisecond)
				return next()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		soon(t, "Close", time.Second, func() { ok(t, b.Close(ctx)) })
	})
}

// A try that arrives late, after others of its claim, gives the claim its first
// lease again, which is shorter than the one that a renewal has brought.
func TestLinger_ATryThatArrivesLateCutsNoLeaseThatIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithLinger(linger))
		var wg sync.WaitGroup
		tried := false
		b.spy.set(func(s *spy) {
			s.acquire = func(_ context.Context, c *locker.Claim, next acquires) (locker.Answer, error) {
				if !c.Lingers || tried {
					return next()
				}
				tried = true
				wg.Go(func() {
					time.Sleep(100 * time.Millisecond)
					_, err := b.mem.Acquire(t.Context(), c, locker.Try{})
					ok(t, err)
				})
				return locker.Answer{}, fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrSilent)
			}
		})
		for range 3 {
			ok(t, b.Do(t.Context(), key, nop))
		}
		ok(t, b.Do(t.Context(), key, func(ctx context.Context) error {
			lease, _ := guard.LeaseFrom(ctx)
			for start := time.Now(); time.Since(start) < 8*time.Second; time.Sleep(10 * time.Millisecond) {
				ends := time.Now().Add(must(b.mem.Inspect(ctx, key)).Remaining)
				if late := lease.Deadline().Sub(ends); late > 0 || ctx.Err() != nil {
					t.Fatalf("the lease is trusted for %v longer than the store keeps it (%v)", late, ctx.Err())
				}
			}
			return nil
		}))
		if wg.Wait(); !tried {
			t.Error("the claim did not linger: the test tests nothing")
		}
	})
}

func TestTryDo_SaysForHowLongALeaseTheAnswerWasLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithLinger(linger))
		for range 3 {
			ok(t, b.Do(t.Context(), key, nop))
		}
		b.spy.set(func(s *spy) {
			s.acquire = func(_ context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
				a, err := next()
				time.Sleep(2500 * time.Millisecond)
				return a, err
			}
		})
		_, err := b.TryDo(t.Context(), key, nop)
		if wantErr(t, err, guard.ErrUnavailable); !strings.Contains(err.Error(), "of a lease of 3.333s") {
			t.Errorf("%v, want it to say how long the lease was", err)
		}
	})
}
