package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// keptFor returns a function that returns the number of its run, and keeps it
// for the given times, of which the last one counts.
func keptFor(t *testing.T, n *atomic.Int64, each ...time.Duration) func(context.Context) (int64, error) {
	t.Helper()
	return func(ctx context.Context) (int64, error) {
		for _, d := range each {
			if err := guard.KeepFor(ctx, d); err != nil {
				t.Errorf("KeepFor %v: %v", d, err)
			}
		}
		return n.Add(1), nil
	}
}

func TestKeepFor_ItsTimeCountsInPlaceOfTheTTL(t *testing.T) {
	for _, c := range []struct {
		each []time.Duration
		life time.Duration
	}{
		{nil, time.Hour},
		{[]time.Duration{10 * time.Second}, 10 * time.Second},
		{[]time.Duration{24 * time.Hour}, 24 * time.Hour},
		{[]time.Duration{0, time.Minute, 5 * time.Second}, 5 * time.Second},
		{[]time.Duration{time.Second + 999*time.Microsecond}, time.Second},
		{[]time.Duration{locker.MaxRecordTTL}, locker.MaxRecordTTL},
	} {
		t.Run(fmt.Sprint(c.each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a, b := recording(t)
				var runs atomic.Int64
				fn := keptFor(t, &runs, c.each...)
				wantOnce(t, a, fn, 1)
				time.Sleep(c.life - time.Millisecond)
				wantOnce(t, b, fn, 1)
				time.Sleep(time.Millisecond)
				wantOnce(t, b, fn, 2)
			})
		})
	}
}

// Those who wait run their own functions, one after the other.
func TestKeepFor_ZeroKeepsNothing(t *testing.T) {
	for _, opts := range [][]guard.Option{nil, {guard.WithAtMostOnce()}} {
		synctest.Test(t, func(t *testing.T) {
			_, a, b := recording(t, append(opts, guard.WithMaxWait(time.Minute))...)
			var runs atomic.Int64
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					r, err := []*guard.Guard{a, b}[i%2].OnceBytes(t.Context(), key, guard.OnceOptions{TTL: time.Hour},
						func(ctx context.Context) ([]byte, error) {
							time.Sleep(time.Second)
							runs.Add(1)
							return []byte{byte(i)}, guard.KeepFor(ctx, 999*time.Microsecond)
						})
					if !r.Fresh || len(r.Record) != 1 || r.Record[0] != byte(i) || err != nil {
						t.Errorf("call %d: %+v, %v", i, r, err)
					}
				})
			}
			wg.Wait()
			wantOnce(t, b, keptFor(t, &runs), 11)
			wantOnce(t, a, keptFor(t, &runs), 11)
		})
	}
}

func TestKeepFor_AWrongTimeKeepsNothingAndIsAnError(t *testing.T) {
	for _, d := range []time.Duration{-1, -time.Hour, locker.MaxRecordTTL + 1} {
		synctest.Test(t, func(t *testing.T) {
			_, a, b := recording(t)
			var runs atomic.Int64
			v, err := guard.Once(t.Context(), a, key, time.Hour, func(ctx context.Context) (int64, error) {
				err := guard.KeepFor(ctx, d)
				wantErr(t, err, guard.ErrInvalidOption)
				return runs.Add(1), nil // a caller that does not look
			})
			wantErr(t, err, guard.ErrNotRecorded, guard.ErrInvalidOption)
			if v != 1 {
				t.Errorf("got %d beside the error", v)
			}
			wantOnce(t, b, keptFor(t, &runs), 2)
		})
	}
}

func TestKeepFor_IsForResultsAndFinalErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := recording(t)
		var runs atomic.Int64
		fails := func(err error) error {
			_, err = guard.Once(t.Context(), a, key, time.Hour, func(ctx context.Context) (int64, error) {
				return runs.Add(1), errors.Join(guard.KeepFor(ctx, time.Minute), err)
			})
			return err
		}
		errOwn := errors.New("own")
		wantErr(t, fails(errOwn), errOwn)
		wantErr(t, fails(guard.Final("gone", errOwn)), errOwn)
		_, err := guard.Once(t.Context(), b, key, time.Hour, keptFor(t, &runs))
		wantErr(t, err, &guard.FinalError{Code: "gone"})
		time.Sleep(time.Minute)
		wantOnce(t, b, keptFor(t, &runs), 3)
	})
}

// A function that has failed may have done something, for whatever time it
// wanted to keep its result.
func TestKeepFor_AtMostOnceGoesByTheTTL(t *testing.T) {
	errOwn := errors.New("own")
	for name, fn := range map[string]func(ctx context.Context) error{
		"0, and an error": func(ctx context.Context) error { return errors.Join(guard.KeepFor(ctx, 0), errOwn) },
		"1 s, and an error": func(ctx context.Context) error {
			return errors.Join(guard.KeepFor(ctx, time.Second), errOwn)
		},
		"a wrong time": func(ctx context.Context) error { _ = guard.KeepFor(ctx, -1); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a, b := atMostOnce(t)
				var runs atomic.Int64
				_, err := guard.Once(t.Context(), a, key, time.Hour, func(ctx context.Context) (int64, error) {
					return runs.Add(1), fn(ctx)
				})
				if err == nil {
					t.Error("no error")
				}
				time.Sleep(time.Hour - time.Millisecond)
				_, err = guard.Once(t.Context(), b, key, time.Hour, keptFor(t, &runs))
				wantErr(t, err, guard.ErrInterrupted)
				time.Sleep(time.Millisecond)
				wantOnce(t, b, keptFor(t, &runs), 2)
			})
		})
	}
}

func TestKeepFor_GoesToTheInnermostOnceThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := recording(t)
		wantErr(t, guard.KeepFor(nil, 0), guard.ErrInvalidOption) //nolint:staticcheck // what it is about
		wantErr(t, guard.KeepFor(t.Context(), 0), guard.ErrNoLease)
		err := a.Do(t.Context(), "other", func(ctx context.Context) error { return guard.KeepFor(ctx, 0) })
		wantErr(t, err, guard.ErrNoLease)
		var runs atomic.Int64
		var after context.Context
		wantOnce(t, a, func(ctx context.Context) (int64, error) {
			err := a.Do(ctx, "inside", func(ctx context.Context) error { return guard.KeepFor(ctx, time.Minute) })
			_, err2 := guard.Once(ctx, a, "within", time.Hour, keptFor(t, &runs, time.Second))
			after = ctx
			return runs.Load(), errors.Join(err, err2)
		}, 1)
		wantErr(t, guard.KeepFor(after, 0), guard.ErrNoLease)
		time.Sleep(time.Minute - time.Millisecond)
		wantOnce(t, a, keptFor(t, &runs), 1)
		time.Sleep(time.Millisecond)
		wantOnce(t, a, keptFor(t, &runs), 2)
	})
}

// Such a function has no lease whose release says that it has returned.
func TestKeepFor_AfterAFunctionThatRanUnguardedItIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, a, _ := recording(t, guard.WithFailOpen(guard.OnceToo), guard.WithMaxWait(time.Second))
		defer mem.Break()()
		var runs atomic.Int64
		var after context.Context
		wantOnce(t, a, func(ctx context.Context) (int64, error) {
			after = ctx
			return runs.Add(1), guard.KeepFor(ctx, time.Minute)
		}, 1)
		wantErr(t, guard.KeepFor(after, time.Minute), guard.ErrNoLease)
	})
}

func TestKeepFor_AfterItsFunctionItDoesNotReachTheOneAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := recording(t)
		var runs atomic.Int64
		wantOnce(t, a, func(ctx context.Context) (int64, error) {
			var within context.Context
			_, err := guard.Once(ctx, a, "within", time.Hour, func(ctx context.Context) (int64, error) {
				within = ctx
				return 0, nil
			})
			wantErr(t, guard.KeepFor(within, 0), guard.ErrNoLease)
			return runs.Add(1), err
		}, 1)
		wantOnce(t, a, keptFor(t, &runs), 1)
	})
}
