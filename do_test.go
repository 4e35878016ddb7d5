package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

const key = "stock:1"

func TestDo_KeysDoNotBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				err := b.Do(t.Context(), guard.Key("sku", i), func(context.Context) error {
					time.Sleep(time.Second)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(start); d != time.Second {
			t.Fatalf("500 keys took %v, want 1s", d)
		}
	})
}

func TestDo_ReturnsTheFunctionsErrorUnchanged(t *testing.T) {
	b := newBench(t)
	own := errors.New("own")
	if err := b.Do(t.Context(), key, func(context.Context) error {
		return own
	}); err != own { //nolint:errorlint // unchanged
		t.Fatalf("got %v", err)
	}
	n, err := guard.Call(t.Context(), b.Guard, key, func(context.Context) (int, error) { return 7, own })
	if n != 7 || err != own { //nolint:errorlint // unchanged
		t.Fatalf("Call: got %d, %v", n, err)
	}
	square := guard.Wrap(b.Guard, func(n int) string { return guard.Key("n", n) },
		func(_ context.Context, n int) (string, error) { return strconv.Itoa(n * n), nil })
	if s, err := square(t.Context(), 12); s != "144" || err != nil {
		t.Fatalf("Wrap: got %q, %v", s, err)
	}
}

func TestDo_PanicAndGoexitPassThroughAndRelease(t *testing.T) {
	b := newBench(t, guard.WithMaxWait(0))
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v, want boom", r)
			}
		}()
		_ = b.Do(t.Context(), key, func(context.Context) error { panic("boom") })
	}()
	done := make(chan struct{})
	go func() { // ends by Goexit
		defer close(done)
		_ = b.Do(t.Context(), key, func(context.Context) error { runtime.Goexit(); return nil })
		t.Error("came back from Goexit")
	}()
	<-done
	if err := b.other.Do(t.Context(), key, nop); err != nil {
		t.Fatalf("the key was left: %v", err)
	}
}

func TestDo_WaitEndsAtMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithName("checkout"))
		l := must(b.other.Acquire(t.Context(), key))
		start := time.Now()
		err := b.Do(t.Context(), key, nop)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("waited %v, want 3s", d)
		}
		wantErr(t, err, guard.ErrNotAcquired)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v Is DeadlineExceeded, which is for the caller's own deadline", err)
		}
		var held *guard.HeldError
		if !errors.As(err, &held) {
			t.Fatalf("got %T, want *HeldError", err)
		}
		if held.Key != key || held.Holder.Name != "checkout" || held.Holder.PID == 0 || held.Holder.Instance == "" ||
			held.Remaining <= 0 || held.Remaining > 10*time.Second || held.RetryAfter() > held.Remaining {
			t.Errorf("got %+v", held)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDo_MaxWaitZeroMakesOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(0))
		l := must(b.other.Acquire(t.Context(), key))
		start := time.Now()
		wantErr(t, b.Do(t.Context(), key, nop), guard.ErrNotAcquired)
		_, err := b.TryAcquire(t.Context(), key)
		wantErr(t, err, guard.ErrNotAcquired)
		if n := b.spy.asks(); n != [3]int64{2} || time.Since(start) != 0 { // neither has to leave a queue
			t.Errorf("requests %v in %v, want 2 tries in no time", n, time.Since(start))
		}
		_ = l.Release(t.Context())
	})
}

func TestTryAcquire_DoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		l := must(b.other.Acquire(t.Context(), key))
		go func() { _ = b.Do(t.Context(), key, nop) }()
		synctest.Wait()
		tries := b.spy.acquires.Load()
		_, err := b.TryAcquire(t.Context(), key)
		var held *guard.HeldError
		if !errors.As(err, &held) || held.Holder.Instance == "" {
			t.Errorf("got %v, want a HeldError that knows the holder", err)
		}
		if n := b.spy.acquires.Load() - tries; n != 0 {
			t.Errorf("sent %d tries past the waiter", n)
		}
		_ = l.Release(t.Context())
	})
}

func TestDo_LineIsFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Minute))
		l := must(b.Acquire(t.Context(), key))
		var order []int
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				if err := b.Do(t.Context(), key,
					func(context.Context) error { order = append(order, i); return nil }); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // the call stands in line
		}
		tries := b.spy.acquires.Load()
		_ = l.Release(t.Context())
		wg.Wait()
		for i, n := range order {
			if i != n {
				t.Fatalf("order %v", order)
			}
		}
		if n := b.spy.acquires.Load() - tries; n > 4 { // 200 turns, 64 on a grant
			t.Errorf("%d tries for 200 turns", n)
		}
	})
}

func TestDo_FullQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWaiters(3))
		l := must(b.Acquire(t.Context(), key))
		for range 3 {
			go func() { _ = b.Do(t.Context(), key, nop) }()
		}
		synctest.Wait()
		start := time.Now()
		err := b.Do(t.Context(), key, nop)
		wantErr(t, err, guard.ErrQueueFull, guard.ErrNotAcquired)
		if time.Since(start) != 0 {
			t.Errorf("refused after %v", time.Since(start))
		}
		_ = l.Release(t.Context())
	})
}

func TestDo_ExpectedWaitBeyondMaxWaitRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		slow := func(context.Context) error { time.Sleep(200 * time.Millisecond); return nil }
		var refused, served, late atomic.Int64
		var wg sync.WaitGroup
		for range 100 { // a new call every 50 ms is four times the rate that can be served
			time.Sleep(50 * time.Millisecond)
			wg.Go(func() {
				start := time.Now()
				err := b.Do(t.Context(), key, slow)
				switch {
				case err == nil:
					served.Add(1)
				case errors.Is(err, guard.ErrQueueFull) && time.Since(start) == 0:
					refused.Add(1)
					var hint interface{ RetryAfter() time.Duration }
					if !errors.As(err, &hint) || hint.RetryAfter() < 2*time.Second {
						t.Errorf("no useful RetryAfter in %v", err)
					}
				default:
					late.Add(1)
				}
			})
		}
		wg.Wait()
		if served.Load() < 25 || refused.Load() < 50 || late.Load() > 3 {
			t.Errorf("%d served, %d refused at once, %d waited in vain", served.Load(), refused.Load(), late.Load())
		}
	})
}

func TestDo_CallersContextEndsTheWait(t *testing.T) {
	for _, where := range []string{"contending", "in line"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				g := b.Guard
				l := must(b.other.Acquire(t.Context(), key))
				if where == "in line" {
					g = b.other
				}
				own := errors.New("shutting down")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(own) })
				start := time.Now()
				err := g.Do(ctx, key, nop)
				wantErr(t, err, guard.ErrNotAcquired, context.Canceled, own)
				if d := time.Since(start); d != time.Second {
					t.Errorf("left after %v", d)
				}
				_ = l.Release(t.Context())
				if err := g.Do(t.Context(), key, nop); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestDo_TenThousandWaitersCostWhatOneCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWaiters(0), guard.WithMaxWait(time.Minute))
		l := must(b.other.Acquire(t.Context(), key))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() {
				if err := b.Do(ctx, key, nop); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		before := b.spy.acquires.Load()
		time.Sleep(10 * time.Second)
		if n := b.spy.acquires.Load() - before; n > 200 {
			t.Errorf("10,000 waiters sent %d tries in 10 s", n)
		}
		start := time.Now()
		cancel()
		wg.Wait()
		if time.Since(start) != 0 {
			t.Errorf("leaving took %v", time.Since(start))
		}
		synctest.Wait()
		if n := b.spy.others.Load(); n != 1 {
			t.Errorf("%d claims were left to clean up, want the one that was queued", n)
		}
		_ = l.Release(t.Context())
		if err := b.Do(t.Context(), key, nop); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDoAll_HasOneMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		a := must(b.other.Acquire(t.Context(), "a"))
		c := must(b.other.Acquire(t.Context(), "c"))
		time.AfterFunc(2*time.Second, func() { _ = a.Release(t.Context()) })
		start := time.Now()
		err := b.DoAll(t.Context(), []string{"c", "a"}, nop)
		wantErr(t, err, guard.ErrNotAcquired)
		if d := time.Since(start); d < 3*time.Second || d > 3*time.Second+50*time.Millisecond {
			t.Errorf("waited %v for both, want 3s", d)
		}
		_ = c.Release(t.Context())
		if err := b.Do(t.Context(), "a", nop); err != nil {
			t.Fatalf("the first key was left: %v", err)
		}
	})
}

// A far store answers tries after a round trip, and counts those that had less
// time.
type far struct {
	*memlocker.Locker
	trip time.Duration
	cut  atomic.Int64
}

func (f *far) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	timer := time.NewTimer(f.trip)
	defer timer.Stop()
	select {
	case <-timer.C:
		return f.Locker.Acquire(context.WithoutCancel(ctx), c, t)
	case <-ctx.Done():
		f.cut.Add(1)
		return locker.Answer{Queued: t.Wait},
			fmt.Errorf("%w: %w: %w", locker.ErrUnavailable, locker.ErrSilent, ctx.Err())
	}
}

// A try that is cut short would cost a connection.
func TestDo_FarFromTheStoreAHeldKeyIsHeld(t *testing.T) {
	for _, trip := range []int{60, 120, 200, 300} {
		synctest.Test(t, func(t *testing.T) {
			store := &far{Locker: memlocker.New(), trip: time.Duration(trip) * time.Millisecond}
			g := newGuard(t, store, guard.WithMaxWait(time.Second))
			holder := newGuard(t, store.Peer(), guard.WithName("holder"))
			l := must(holder.Acquire(t.Context(), key))
			for range 24 {
				start, held := time.Now(), (*guard.HeldError)(nil)
				err := g.Do(t.Context(), key, nop)
				if !errors.As(err, &held) || held.Holder.Name != "holder" {
					t.Errorf("at %v: %v", store.trip, err)
				}
				if d := time.Since(start); d < time.Second || d > time.Second+50*time.Millisecond {
					t.Errorf("at %v: waited %v", store.trip, d)
				}
			}
			if n := store.cut.Load(); n != 0 {
				t.Errorf("at %v: %d tries were cut short", store.trip, n)
			}
			wantErr(t, l.Release(t.Context()), nil)
		})
	}
}

// A message reaches a call that does not look any more.
func TestDo_AKeyThatIsHandedOverAtTheEndOfTheWaitIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &far{Locker: memlocker.New(), trip: 300 * time.Millisecond}
		g := newGuard(t, store, guard.WithMaxWait(time.Second))
		l := must(newGuard(t, store.Peer()).Acquire(t.Context(), key))
		time.AfterFunc(990*time.Millisecond, func() { _ = l.Release(t.Context()) })
		start := time.Now()
		wantErr(t, g.Do(t.Context(), key, nop), nil)
		if d := time.Since(start); d != 990*time.Millisecond {
			t.Errorf("it ran after %v", d)
		}
	})
}

// A stumbling store answers its first try late.
type stumbling struct {
	far

	tries atomic.Int64
}

func (s *stumbling) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if s.tries.Add(1) == 1 {
		return s.far.Acquire(ctx, c, t)
	}
	return s.Locker.Acquire(ctx, c, t)
}

// The calls of a line have too little time for another look that takes as long.
func TestDo_AfterOneSlowLookALineFindsAFreeKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stumbling{far: far{Locker: memlocker.New(), trip: 450 * time.Millisecond}}
		g := newGuard(t, store, guard.WithMaxWait(400*time.Millisecond))
		l := must(newGuard(t, store.Peer()).Acquire(t.Context(), key))
		var calls sync.WaitGroup
		ran := 0
		for n := range 40 { // there is always somebody in line
			if n == 25 {
				wantErr(t, l.Release(t.Context()), nil)
			}
			calls.Go(func() { _ = g.Do(t.Context(), key, func(context.Context) error { ran++; return nil }) })
			time.Sleep(100 * time.Millisecond)
		}
		calls.Wait()
		if ran < 15 {
			t.Errorf("the key was free for 15 calls, and %d ran", ran)
		}
	})
}

// A waking store wakes its guard while the first try is under way, as one does
// that has just begun to hear messages.
type waking struct {
	far

	waker locker.Waker
}

func (w *waking) Open(waker locker.Waker) error {
	w.waker = waker
	return w.far.Open(waker)
}

func TestDo_AWakeUpBeforeTheLastLookLosesNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &waking{far: far{Locker: memlocker.New(), trip: 300 * time.Millisecond}}
		g := newGuard(t, store, guard.WithMaxWait(500*time.Millisecond))
		l := must(newGuard(t, store.Peer()).Acquire(t.Context(), key))
		time.AfterFunc(150*time.Millisecond, store.waker.WakeAll)
		time.AfterFunc(350*time.Millisecond, func() { _ = l.Release(t.Context()) })
		start := time.Now()
		wantErr(t, g.Do(t.Context(), key, nop), nil)
		if d := time.Since(start); d != 350*time.Millisecond {
			t.Errorf("it ran after %v", d)
		}
	})
}
