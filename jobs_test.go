package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// Two schedulers start the same job at every tick. Their clocks are up to 100
// ms apart, and each is ahead at times. With MinHold each tick runs once.
// Without MinHold it does not.
func TestTryDo_EachTickRunsOnceWhereClocksDiffer(t *testing.T) {
	const ticks, every, apart = 1000, time.Second, 100 * time.Millisecond
	run := func(t *testing.T, minHold time.Duration) (runs, most int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, guard.WithMinHold(minHold))
			var mu sync.Mutex
			ran := make([]int, ticks)
			scheduler := func(g *guard.Guard, ahead func() time.Duration) {
				start := time.Now()
				for tick := range ticks {
					time.Sleep(time.Until(start.Add(time.Duration(tick+1)*every - ahead())))
					_, err := g.TryDo(t.Context(), key, func(context.Context) error {
						mu.Lock()
						ran[tick]++
						mu.Unlock()
						time.Sleep(rand.N(20 * time.Millisecond))
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
			var wg sync.WaitGroup
			wg.Go(func() { scheduler(b.Guard, func() time.Duration { return 0 }) })
			wg.Go(func() { scheduler(b.other, func() time.Duration { return apart - rand.N(2*apart) }) })
			wg.Wait()
			for _, n := range ran {
				runs, most = runs+n, max(most, n)
			}
		})
		return runs, most
	}
	if runs, most := run(t, 500*time.Millisecond); runs != ticks || most != 1 {
		t.Errorf("%d runs of %d ticks, up to %d of one", runs, ticks, most)
	}
	if runs, _ := run(t, 0); runs < ticks*3/2 {
		t.Errorf("%d runs without MinHold: the test shows nothing", runs)
	}
}

func TestTryDo_SkipsWhatIsHeldAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		own, start := errors.New("own"), time.Now()
		want := func(what string, ran bool, err error, wantRan bool, wantErr error) {
			t.Helper()
			if ran != wantRan || !errors.Is(err, wantErr) || (wantErr == nil && err != nil) {
				t.Errorf("%s: ran %t, %v; want %t, %v", what, ran, err, wantRan, wantErr)
			}
		}
		ran, err := b.TryDo(t.Context(), key, nop)
		want("free", ran, err, true, nil)
		ran, err = b.TryDo(t.Context(), key, func(ctx context.Context) error {
			for name, g := range map[string]*guard.Guard{"held here": b.Guard, "held elsewhere": b.other} {
				ran, err := g.TryDo(t.Context(), key, nop)
				want(name, ran, err, false, nil)
			}
			ran, err := b.TryDo(ctx, key, nop)
			want("inside", ran, err, true, nil)
			return own
		})
		want("the function's error", ran, err, true, own)
		ran, err = b.TryDo(t.Context(), key, func(context.Context) error { b.mem.Lose(key); return nil })
		want("lost", ran, err, true, guard.ErrLeaseLost)

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		ran, err = b.TryDo(gone, key, nop)
		want("the caller has gone", ran, err, false, context.Canceled)
		ran, err = b.TryDo(t.Context(), "", nop)
		want("no key", ran, err, false, guard.ErrInvalidKey)
		ran, err = b.TryDo(t.Context(), key, nil)
		want("no function", ran, err, false, guard.ErrInvalidOption)
		ran, err = (*guard.Guard)(nil).TryDo(t.Context(), key, nop)
		want("no default", ran, err, false, guard.ErrNoDefault)
		mend := b.mem.Break()
		ran, err = b.TryDo(t.Context(), key, nop)
		want("an outage", ran, err, false, guard.ErrUnavailable)
		mend()
		if d := time.Since(start); d > 500*time.Millisecond {
			t.Errorf("waited %v", d)
		}
		_ = b.Close(t.Context())
		ran, err = b.TryDo(t.Context(), key, nop)
		want("closed", ran, err, false, guard.ErrClosed)
	})
}

// As in an errgroup whose other function has met an outage.
func TestLead_EndsWithACtxWhoseCauseIsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		b := newBench(t, guard.WithObserver(startSeen{seen: func() {
			if tries++; tries > 10 {
				t.Fatal("it tries again and again")
			}
		}}))
		ctx, leave := context.WithCancelCause(t.Context())
		leave(guard.ErrUnavailable)
		err := b.Lead(ctx, key, func(context.Context) error { t.Error("it led"); return nil })
		wantErr(t, err, guard.ErrNotAcquired)
		wantErr(t, err, context.Canceled)
	})
}

func TestTryDo_SaysThatItsCtxEndedBecauseAnotherKeyWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, leave := context.WithCancelCause(t.Context())
		leave(&guard.HeldError{Key: "another"})
		ran, err := b.TryDo(ctx, key, func(context.Context) error { t.Error("it ran"); return nil })
		wantErr(t, err, context.Canceled)
		if ran {
			t.Error("TryDo says that it ran")
		}
	})
}

// startSeen is an observer that calls seen at the start of each wait.
type startSeen struct {
	guard.NopObserver

	seen func()
}

func (s startSeen) WaitStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	s.seen()
	return ctx
}
