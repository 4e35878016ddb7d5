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
	"github.com/go-lockguard/guard/locker/memlocker"
)

// waitBook is an observer that notes the last wait, and counts holds.
type waitBook struct {
	guard.NopObserver

	last  guard.WaitResult
	holds int
}

func (w *waitBook) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) { w.last = r }

func (w *waitBook) HoldStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	w.holds++
	return ctx
}

const unguardedLine = `level=WARN msg="guard: functions run unguarded while the locker is silent (WithFailOpen)"`

// inSilence runs a test on a guard that fails open, whose store is silent.
func inSilence(t *testing.T, test func(t *testing.T, b *bench, seen *waitBook)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		seen := &waitBook{}
		b, _ := newLogged(t, guard.WithFailOpen(), guard.WithMaxWait(time.Second), guard.WithObserver(seen))
		b.mem.Break()
		test(t, b, seen)
	})
}

func TestDo_FailOpenRunsEveryVerbOfAFunctionWithoutALease(t *testing.T) {
	errOwn := errors.New("own")
	for name := range verbs(nil) {
		if name == "Lead" { // it waits
			continue
		}
		t.Run(name, func(t *testing.T) {
			inSilence(t, func(t *testing.T, b *bench, seen *waitBook) {
				t.Helper()
				ran := 0
				err := verbs(b.Guard)[name](t.Context(), func(ctx context.Context) error {
					ran++
					if _, ok := guard.LeaseFrom(ctx); ok {
						t.Error("a lease in the context")
					}
					if _, ok := guard.LeaseOf(ctx, key); ok {
						t.Error("a lease on the key")
					}
					_, err := guard.FencingToken(ctx)
					wantErr(t, err, guard.ErrNoLease)
					return errOwn
				})
				wantErr(t, err, errOwn)
				if ran != 1 || seen.holds != 0 {
					t.Errorf("ran %d times, %d holds", ran, seen.holds)
				}
				if !seen.last.Unguarded || !errors.Is(seen.last.Err, guard.ErrUnavailable) {
					t.Errorf("the wait ended with %+v", seen.last)
				}
			})
		})
	}
}

func TestAcquire_VerbsThatGiveALeaseDoNotFailOpen(t *testing.T) {
	inSilence(t, func(t *testing.T, b *bench, _ *waitBook) {
		t.Helper()
		_, err := b.Acquire(t.Context(), key)
		wantErr(t, err, guard.ErrUnavailable)
		_, err = b.TryAcquire(t.Context(), key)
		wantErr(t, err, guard.ErrUnavailable)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = b.Lead(ctx, key, func(context.Context) error { t.Error("it led"); return nil })
		wantErr(t, err, guard.ErrNotAcquired)
	})
}

// What is not the silence of the store is refused as without the option.
func TestDo_FailOpenStaysClosedForEverythingElse(t *testing.T) {
	never := func(t *testing.T) func(context.Context) error {
		t.Helper()
		return func(context.Context) error { t.Error("it ran"); return nil }
	}
	t.Run("a key that is held", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, guard.WithFailOpen())
			l := must(b.other.Acquire(t.Context(), key))
			wantErr(t, b.Do(t.Context(), key, never(t)), guard.ErrNotAcquired)
			wantErr(t, l.Release(t.Context()), nil)
		})
	})
	t.Run("a full line", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, guard.WithFailOpen(), guard.WithMaxWaiters(1))
			b.mem.Break()
			done := make(chan error)
			for range 2 { // one contends, one stands in line; both will run
				go func() { done <- b.Do(t.Context(), key, nop) }()
			}
			synctest.Wait()
			wantErr(t, b.Do(t.Context(), key, never(t)), guard.ErrQueueFull)
			wantErr(t, <-done, nil)
			wantErr(t, <-done, nil)
		})
	})
	t.Run("a guard that is closed", func(t *testing.T) {
		inSilence(t, func(t *testing.T, b *bench, _ *waitBook) {
			t.Helper()
			_ = b.Do(t.Context(), key, nop) // evidence
			wantErr(t, b.Close(t.Context()), nil)
			wantErr(t, b.Do(t.Context(), key, never(t)), guard.ErrClosed)
		})
	})
	t.Run("a caller that leaves", func(t *testing.T) {
		inSilence(t, func(t *testing.T, b *bench, _ *waitBook) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			wantErr(t, b.Do(ctx, key, never(t)), guard.ErrNotAcquired)
		})
	})
	t.Run("a caller that leaves because another call met the silence", func(t *testing.T) {
		inSilence(t, func(t *testing.T, b *bench, _ *waitBook) {
			t.Helper()
			ctx, leave := context.WithCancelCause(t.Context()) // as that of an errgroup
			_, err := b.Acquire(t.Context(), key)
			time.AfterFunc(100*time.Millisecond, func() { leave(err) })
			err = b.With(guard.WithMaxWait(time.Hour)).Do(ctx, key, never(t))
			wantErr(t, err, guard.ErrNotAcquired)
			wantErr(t, err, context.Canceled)
		})
	})
	for name, answer := range map[string]error{
		"a refusal":              errors.New("NOPERM"),
		"a store that loads":     errors.Join(locker.ErrUnavailable, errors.New("LOADING")),
		"a queue in the process": errors.Join(locker.ErrUnavailable, locker.ErrUnsent, locker.ErrSilent),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, guard.WithFailOpen())
				b.spy.set(func(s *spy) { s.acquire = refuse(answer) })
				for range 5 {
					wantErr(t, b.Do(t.Context(), key, never(t)), guard.ErrUnavailable)
				}
			})
		})
	}
}

func TestDo_UnguardedRunsAreLoggedOnceForEachOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithFailOpen(), guard.WithMaxWait(time.Second))
		for range 2 {
			mend := b.mem.Break()
			for range 5 {
				wantErr(t, b.Do(t.Context(), key, nop), nil)
			}
			book.want(t, downLine, unguardedLine)
			mend()
			wantErr(t, b.Do(t.Context(), key, nop), nil)
			book.want(t, upLine)
			time.Sleep(time.Minute)
		}
	})
}

// A token of the outer lease would be taken for one of the inner resource.
func TestDo_AnUnguardedFunctionHasNoTokenOfTheLeaseAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithFailOpen(), guard.WithMaxWait(time.Second))
		wantErr(t, b.Do(t.Context(), "outer", func(ctx context.Context) error {
			mend := b.mem.Break()
			return b.Do(ctx, "inner", func(ctx context.Context) error {
				_, err := guard.FencingToken(ctx)
				wantErr(t, err, guard.ErrNoLease)
				if _, ok := guard.LeaseOf(ctx, "outer"); !ok {
					t.Error("the outer lease is not found by its key")
				}
				// A call on the outer key runs inside the outer lease, as
				// always.
				wantErr(t, b.With(guard.WithMaxWait(0)).Do(ctx, "outer", nop), nil)
				mend()
				// One on the inner key has a lease again once the store is
				// back.
				return b.Do(ctx, "inner", func(ctx context.Context) error {
					_, err := guard.FencingToken(ctx)
					return err
				})
			})
		}), nil)
	})
}

// A refusal inside it may come when half of the work is done.
func TestDo_ARefusalInsideAnUnguardedFunctionCountsAsRun(t *testing.T) {
	inSilence(t, func(t *testing.T, b *bench, _ *waitBook) {
		t.Helper()
		err := b.Do(t.Context(), key, func(context.Context) error { return guard.ErrNotAcquired })
		if !guard.Ran(err) {
			t.Error("Ran is false")
		}
	})
}

func TestDo_APanicOfAnUnguardedFunctionPassesThrough(t *testing.T) {
	inSilence(t, func(t *testing.T, b *bench, _ *waitBook) {
		t.Helper()
		defer func() {
			if p := recover(); p == nil || !strings.Contains(p.(string), "own") {
				t.Errorf("got %v", p)
			}
		}()
		_ = b.Do(t.Context(), key, func(context.Context) error { panic("own") })
	})
}

// Only a caller that says so has a result made without its record.
func TestOnce_FailsOpenOnlyWhereItIsAskedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, seen := memlocker.New(), &waitBook{}
		closed := newGuard(t, mem, guard.WithFailOpen(), guard.WithMaxWait(time.Second), guard.WithObserver(seen))
		open := closed.With(guard.WithFailOpen(guard.OnceToo))
		runs := 0
		once := func(g *guard.Guard) (int, error) {
			return guard.Once(t.Context(), g, key, time.Hour, func(ctx context.Context) (int, error) {
				if _, ok := guard.LeaseFrom(ctx); ok {
					t.Error("a lease in the context")
				}
				runs++
				return runs, guard.KeepFor(ctx, time.Minute)
			})
		}
		mend := mem.Break()
		for i := 1; i <= 2; i++ {
			if got, err := once(open); got != i || err != nil || !seen.last.Unguarded || seen.holds != 0 {
				t.Errorf("open: got %d, %v after %+v", got, err, seen.last)
			}
		}
		for name, g := range map[string]*guard.Guard{
			"WithFailOpen alone": closed, "again without OnceToo": open.With(guard.WithFailOpen()),
			"WithAtMostOnce": open.With(guard.WithAtMostOnce()),
		} {
			if _, err := once(g); !errors.Is(err, guard.ErrUnavailable) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		mend()
		if runs != 2 {
			t.Errorf("%d runs", runs)
		}
		for range 2 {
			seven := func(context.Context) (int, error) { return 7, nil }
			got, err := guard.Once(t.Context(), open, key, time.Hour, seven)
			if got != 7 || err != nil {
				t.Errorf("after the outage: got %d, %v", got, err)
			}
		}
		_, err := guard.New(memlocker.New(), guard.WithFailOpen(7))
		wantErr(t, err, guard.ErrInvalidOption)
	})
}
