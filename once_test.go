package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A counter is a store that counts the requests to it.
type counter struct {
	*memlocker.Locker
	acquires, keeps, others atomic.Int64
}

func (c *counter) Acquire(ctx context.Context, cl *locker.Claim, t locker.Try) (locker.Answer, error) {
	c.acquires.Add(1)
	return c.Locker.Acquire(ctx, cl, t)
}

func (c *counter) Release(ctx context.Context, cl *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Record.Value != "" {
		c.keeps.Add(1)
	} else {
		c.others.Add(1)
	}
	return c.Locker.Release(ctx, cl, e)
}

// asks returns the number of requests since the last call.
func (c *counter) asks() [3]int64 {
	return [3]int64{c.acquires.Swap(0), c.keeps.Swap(0), c.others.Swap(0)}
}

// recording returns two processes on one store that keeps results.
func recording(t *testing.T, opts ...guard.Option) (l *counter, a, b *guard.Guard) {
	t.Helper()
	l = &counter{Locker: memlocker.New()}
	return l, newGuard(t, l, opts...), newGuard(t, l.Peer(), opts...)
}

// value returns a function that returns v, and counts its runs in n.
func value[T any](v T, n *atomic.Int64) func(context.Context) (T, error) {
	return func(context.Context) (T, error) {
		n.Add(1)
		return v, nil
	}
}

func wantOnce[T comparable](t *testing.T, g *guard.Guard, fn func(context.Context) (T, error), want T) {
	t.Helper()
	if got, err := guard.Once(t.Context(), g, key, time.Hour, fn); got != want || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestOnce_RunsOnceAndEverybodyGetsTheResult(t *testing.T) {
	for name, opts := range map[string][]guard.Option{
		"at least once": {guard.WithMaxWait(time.Minute)},
		"at most once":  {guard.WithMaxWait(time.Minute), guard.WithAtMostOnce()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, a, b := recording(t, opts...)
				var runs, plain, on atomic.Int64
				alone := func() {
					if on.Add(1) != 1 {
						t.Error("two functions run at once")
					}
					time.Sleep(time.Second)
					on.Add(-1)
				}
				var wg sync.WaitGroup
				for i := range 100 {
					g := []*guard.Guard{a, b}[i%2]
					wg.Go(func() {
						if i%5 == 0 { // others want the key alone
							wantErr(t, g.Do(t.Context(), key, func(context.Context) error {
								alone()
								plain.Add(1)
								return nil
							}), nil)
							return
						}
						wantOnce(t, g, func(context.Context) (string, error) {
							alone()
							return fmt.Sprint("run ", runs.Add(1)), nil
						}, "run 1")
					})
				}
				wg.Wait()
				if runs.Load() != 1 || plain.Load() != 20 {
					t.Errorf("%d runs of Once and %d of Do, want 1 and 20", runs.Load(), plain.Load())
				}
				l.asks()
				wantOnce(t, a, value("again", &runs), "run 1")
				if n := l.asks(); n != [3]int64{1, 0, 0} {
					t.Errorf("a replay has %v requests, want one Acquire", n)
				}
				time.Sleep(2 * time.Hour)
				wantOnce(t, b, value("the next day", &runs), "the next day")
			})
		})
	}
}

// The others of this process and those of another one are answered by what the
// first one has kept.
func TestOnce_JoinersMakeNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := recording(t)
		var runs atomic.Int64
		inside, done := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			wantOnce(t, b, func(context.Context) (int, error) {
				close(inside)
				<-done
				return 7, nil
			}, 7)
		})
		<-inside
		for range 25 {
			wg.Go(func() { wantOnce(t, a, value(8, &runs), 7) })
		}
		time.Sleep(locker.LookEvery) // the first of them looks again
		synctest.Wait()
		l.asks()
		close(done)
		wg.Wait()
		if n := l.asks(); n != [3]int64{} {
			t.Errorf("25 calls that waited made %v requests, want none", n)
		}
		if runs.Load() != 0 {
			t.Error("fn ran again")
		}
	})
}

// A late store answers late, and its messages come late.
type late struct {
	*memlocker.Locker
	acquire, keep, message time.Duration
}

func (l *late) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	defer time.Sleep(l.acquire)
	return l.Locker.Acquire(ctx, c, t)
}

func (l *late) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Record.Value != "" {
		defer time.Sleep(l.keep)
	}
	return l.Locker.Release(ctx, c, e)
}

func (l *late) Open(w locker.Waker) error { return l.Locker.Open(lateWaker{w, l}) }

type lateWaker struct {
	locker.Waker

	store *late
}

func (w lateWaker) Recorded(key, owner, value string) {
	d := w.store.message
	if d == 0 {
		w.Waker.Recorded(key, owner, value)
		return
	}
	go func() { time.Sleep(d); w.Waker.Recorded(key, owner, value) }()
}

// An older call of the process is still being answered when a newer one begins.
func TestOnce_AfterForgetNobodyGetsTheOlderAnswer(t *testing.T) {
	forget := func(t *testing.T, g *guard.Guard) {
		t.Helper()
		if forgot, err := g.Forget(t.Context(), key); !forgot || err != nil {
			t.Errorf("Forget: %v, %v", forgot, err)
		}
	}
	const delay = 400 * time.Millisecond
	for name, c := range map[string]struct {
		store *late
		older func(t *testing.T, a, b *guard.Guard) // an older call of a gets 1, and b forgets that
	}{
		"a call that found it": {&late{acquire: delay}, func(t *testing.T, a, b *guard.Guard) {
			t.Helper()
			wantOnce(t, b, value(1, new(atomic.Int64)), 1)
			go wantOnce(t, a, value(0, new(atomic.Int64)), 1)
		}},
		"a call that keeps it": {&late{keep: delay}, func(t *testing.T, a, _ *guard.Guard) {
			t.Helper()
			go wantOnce(t, a, value(1, new(atomic.Int64)), 1)
		}},
		"a call that is told": {&late{message: delay / 10}, func(t *testing.T, a, b *guard.Guard) {
			t.Helper()
			wg, over := sync.WaitGroup{}, make(chan struct{})
			wg.Go(func() {
				wantOnce(t, b, func(context.Context) (int, error) { <-over; return 1, nil }, 1)
			})
			synctest.Wait()
			go func() { _, _ = guard.Once(t.Context(), a, key, time.Hour, value(2, new(atomic.Int64))) }()
			synctest.Wait()
			close(over)
			wg.Wait()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.store.Locker = memlocker.New()
				a, b := newGuard(t, c.store), newGuard(t, c.store.Peer())
				c.older(t, a, b)
				synctest.Wait()
				forget(t, b)
				wantOnce(t, a, value(2, new(atomic.Int64)), 2)
				time.Sleep(delay) // for the older call and the message
			})
		})
	}
}

func TestOnce_OnlyAFinalErrorIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := recording(t)
		runs := 0
		fn := func(context.Context) (int, error) {
			if runs++; runs == 1 {
				return 3, errors.New("network")
			}
			return 0, fmt.Errorf("charge: %w", guard.Final("declined", errors.New("card declined")))
		}
		if v, err := guard.Once(t.Context(), a, key, time.Hour, fn); v != 3 || err == nil || err.Error() != "network" {
			t.Errorf("got %d, %v, want fn's own", v, err)
		}
		for i, g := range []*guard.Guard{a, b, a} {
			_, err := guard.Once(t.Context(), g, key, time.Hour, fn)
			var final *guard.FinalError
			if !errors.As(err, &final) || !errors.Is(err, &guard.FinalError{Code: "declined"}) ||
				final.Text != "card declined" || (final.Err == nil) != (i > 0) {
				t.Errorf("got %v, want the final error", err)
			}
		}
		if runs != 2 {
			t.Errorf("fn ran %d times, want 2", runs)
		}
	})
}

// Planted fault: a turn on the grant of a plain call is taken for one that
// looked for a record.
func TestOnce_BehindAPlainCallFindsTheRecord(t *testing.T) {
	for _, other := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, a, b := recording(t, guard.WithMaxWait(time.Minute))
			var runs atomic.Int64
			wantOnce(t, b, value(7, &runs), 7)
			inside, done := make(chan struct{}), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				_ = a.Do(t.Context(), key, func(context.Context) error {
					close(inside)
					<-done
					return nil
				})
			})
			<-inside
			for range 3 {
				wg.Go(func() { wantOnce(t, a, value(8, &runs), 7) })
			}
			if other {
				wg.Go(func() { _ = b.Do(t.Context(), key, sleeps(50*time.Millisecond)) })
			}
			synctest.Wait()
			close(done)
			wg.Wait()
			if runs.Load() != 1 {
				t.Errorf("with another process %v: fn ran %d times", other, runs.Load())
			}
		})
	}
}

func sleeps(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}

// One call after the other runs, until one succeeds.
func TestOnce_AfterAnErrorTheNextInLineRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := recording(t)
		var runs atomic.Int64
		var failed atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				v, err := guard.Once(t.Context(), []*guard.Guard{a, b}[i%2], key, time.Hour,
					func(context.Context) (int64, error) {
						time.Sleep(time.Millisecond)
						if n := runs.Add(1); n > 4 {
							return n, nil
						}
						return 0, errors.New("no")
					})
				switch {
				case err != nil:
					failed.Add(1)
				case v != 5:
					t.Errorf("got %d", v)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 5 || failed.Load() != 4 {
			t.Errorf("%d runs, %d errors, want 5 and 4", runs.Load(), failed.Load())
		}
	})
}

func TestOnce_ALostLeaseKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, _ := recording(t)
		var runs atomic.Int64
		v, err := guard.Once(t.Context(), a, key, time.Hour, func(context.Context) (int, error) {
			l.Lose(key)
			return 1, nil
		})
		if v != 1 || !errors.Is(err, guard.ErrLeaseLost) || errors.Is(err, guard.ErrNotRecorded) {
			t.Errorf("got %d, %v, want ErrLeaseLost beside the result", v, err)
		}
		wantOnce(t, a, value(2, &runs), 2)
		wantOnce(t, a, value(3, &runs), 2)
	})
}

func TestOnce_APanicKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := recording(t)
		var runs atomic.Int64
		for _, end := range []func(){func() { panic("no") }, runtime.Goexit} {
			over := make(chan any)
			go func() {
				defer func() { over <- recover() }()
				_, _ = guard.Once(t.Context(), a, key, time.Hour, func(context.Context) (int, error) {
					end()
					return 1, nil
				})
			}()
			<-over
		}
		wantOnce(t, a, value(2, &runs), 2)
	})
}

func TestOnce_AResultIsKeptWhenTheStoreComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := recording(t)
		var runs atomic.Int64
		wantOnce(t, a, func(context.Context) (int, error) { // in time for the release
			mend := l.Break()
			time.AfterFunc(100*time.Millisecond, mend)
			return 1, nil
		}, 1)
		wantOnce(t, b, value(2, &runs), 1)

		var mend func()
		v, err := guard.Once(t.Context(), a, "late", time.Hour, func(context.Context) (int, error) {
			mend = l.Break()
			return 1, nil
		})
		if v != 1 || !errors.Is(err, guard.ErrNotRecorded) || !guard.Ran(err) {
			t.Errorf("got %d, %v, want ErrNotRecorded beside the result", v, err)
		}
		mend()
		v, err = guard.Once(t.Context(), b, "late", time.Hour, value(2, &runs))
		if v != 1 || err != nil {
			t.Errorf("got %d, %v, want the result that was kept late", v, err)
		}
	})
}

// Planted fault: the calls that wait here get the result before the store has
// it.
func TestOnce_NobodyJoinsAResultThatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, _ := recording(t)
		var runs atomic.Int64
		var wg sync.WaitGroup
		v, err := guard.Once(t.Context(), a, key, time.Hour, func(context.Context) (int, error) {
			for range 5 {
				wg.Go(func() {
					_, err := guard.Once(t.Context(), a, key, time.Hour, value(2, &runs))
					if !errors.Is(err, guard.ErrUnavailable) {
						t.Errorf("a call that waited while the store is away: %v, want ErrUnavailable", err)
					}
				})
			}
			synctest.Wait()
			l.Break() // for good
			return 1, nil
		})
		if v != 1 || !errors.Is(err, guard.ErrNotRecorded) {
			t.Errorf("got %d, %v, want ErrNotRecorded beside the result", v, err)
		}
		wg.Wait()
		if runs.Load() != 0 {
			t.Error("another call ran beside a result that may be kept")
		}
	})
}

// An unwritable is a result whose own codec fails with what a function would
// make final.
type unwritable struct{}

func (unwritable) MarshalJSON() ([]byte, error) {
	return nil, guard.Final("declined", errors.New("no"))
}

func TestOnce_SaysWhatWasNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := recording(t, guard.WithResultLimit(100))
		long, n := strings.Repeat("x", 200), new(atomic.Int64)
		wantOnce(t, a, value(long, n), long)
		if _, err := guard.Once(t.Context(), b, key, time.Hour, value(long, n)); !errors.Is(err, guard.ErrResultGone) ||
			guard.Ran(err) {
			t.Errorf("a result that was too long: %v, want ErrResultGone", err)
		}
		fn := func(context.Context) (func(), error) { return func() {}, nil } // JSON cannot write it
		v, err := guard.Once(t.Context(), a, "func", time.Hour, fn)
		if v == nil || !errors.Is(err, guard.ErrNotRecorded) {
			t.Errorf("a result that the codec refuses: %v, want ErrNotRecorded beside it", err)
		}
		if _, err := guard.Once(t.Context(), b, "func", time.Hour, fn); !errors.Is(err, guard.ErrResultGone) {
			t.Errorf("the next call: %v, want ErrResultGone", err)
		}
		final := func(context.Context) (unwritable, error) { return unwritable{}, nil }
		if _, err := guard.Once(t.Context(), a, "final", time.Hour, final); !errors.Is(err, guard.ErrNotRecorded) {
			t.Errorf("a result that refuses to be written: %v, want ErrNotRecorded", err)
		}
		if _, err := guard.Once(t.Context(), b, "final", time.Hour, final); !errors.Is(err, guard.ErrResultGone) {
			t.Errorf("the next call: %v, want ErrResultGone, because the function has not failed", err)
		}
		if _, err := guard.Once(t.Context(), a, "int", time.Hour, value(7, n)); err != nil {
			t.Error(err)
		}
		if _, err := guard.Once(t.Context(), a, "int", time.Hour, value("x", n)); !errors.Is(err, guard.ErrResultGone) {
			t.Errorf("a result of another type: %v, want ErrResultGone", err)
		}
	})
}

// sealed is a codec whose bytes JSON cannot read.
type sealed struct{}

func (sealed) Marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return flipped(data), err
}

func (sealed) Unmarshal(data []byte, v any) error { return json.Unmarshal(flipped(data), v) }

func flipped(data []byte) []byte {
	data = slices.Clone(data)
	for i := range data {
		data[i] ^= 0xff
	}
	return data
}

func TestWithCodec_WritesResultsAndFinalErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := recording(t, guard.WithCodec(sealed{}))
		runs := new(atomic.Int64)
		declined := func(context.Context) (int, error) {
			return 0, guard.Final("declined", errors.New("card declined"))
		}
		for _, g := range []*guard.Guard{a, b} {
			wantOnce(t, g, value(12, runs), 12)
			_, err := guard.Once(t.Context(), g, "final", time.Hour, declined)
			if !errors.Is(err, &guard.FinalError{Code: "declined"}) {
				t.Errorf("got %v, want the final error", err)
			}
		}
		if runs.Load() != 1 {
			t.Errorf("fn ran %d times, want 1", runs.Load())
		}
		other := newGuard(t, l.Peer()) // with the codec of JSON
		for _, k := range []string{key, "final"} {
			if _, err := guard.Once(t.Context(), other, k, time.Hour, declined); !errors.Is(err, guard.ErrResultGone) {
				t.Errorf("%s by another codec: %v, want ErrResultGone", k, err)
			}
		}
	})
}

func TestOnceBytes_ComparesFingerprints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := recording(t)
		o := guard.OnceOptions{TTL: time.Hour, Fingerprint: []byte("one")}
		fn := func(context.Context) ([]byte, error) { return []byte{}, nil }
		r, err := a.OnceBytes(t.Context(), key, o, fn)
		if !r.Fresh || r.Joined || err != nil {
			t.Errorf("the first: %+v, %v", r, err)
		}
		if r, err = b.OnceBytes(t.Context(), key, o, fn); r.Fresh || r.Joined || r.Record == nil || err != nil {
			t.Errorf("a replay: %+v, %v", r, err)
		}
		o.Fingerprint = []byte("two")
		if r, err = b.OnceBytes(t.Context(), key, o, fn); r.Fresh || !errors.Is(err, guard.ErrOtherPayload) {
			t.Errorf("another fingerprint: %+v, %v", r, err)
		}
		runs := 0
		for range 2 {
			if _, err := a.OnceBytes(t.Context(), "nil", o, func(context.Context) ([]byte, error) {
				runs++
				return nil, nil
			}); err != nil {
				t.Error(err)
			}
		}
		if runs != 2 {
			t.Errorf("a nil result: %d runs, want 2", runs)
		}
	})
}

func TestForget_DeletesAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := recording(t)
		var runs atomic.Int64
		wantOnce(t, a, value(1, &runs), 1)
		for _, want := range []bool{true, false} {
			if got, err := b.Forget(t.Context(), key); got != want || err != nil {
				t.Errorf("Forget: %v, %v, want %v", got, err, want)
			}
		}
		wantOnce(t, a, value(2, &runs), 2)
	})
}

func TestOnce_RefusesWhatItCannotKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := recording(t)
		var runs atomic.Int64
		once := func(ctx context.Context, g *guard.Guard, ttl time.Duration) error {
			_, err := guard.Once(ctx, g, key, ttl, value(1, &runs))
			return err
		}
		plain := newGuard(t, testguard.Plain{Locker: memlocker.New()})
		for what, err := range map[string]error{
			"ttl":         once(t.Context(), a, time.Microsecond),
			"a long ttl":  once(t.Context(), a, locker.MaxRecordTTL+1),
			"MinHold":     once(t.Context(), a.With(guard.WithMinHold(time.Second)), time.Hour),
			"Shared":      once(t.Context(), a.With(guard.WithShared()), time.Hour),
			"Permits":     once(t.Context(), a.With(guard.WithPermits(2)), time.Hour),
			"re-entry":    a.Do(t.Context(), key, func(ctx context.Context) error { return once(ctx, a, time.Hour) }),
			"unsupported": once(t.Context(), plain, time.Hour),
		} {
			unsupported := errors.Is(err, errors.ErrUnsupported)
			if !errors.Is(err, guard.ErrInvalidOption) || unsupported != (what == "unsupported") {
				t.Errorf("%s: %v, want ErrInvalidOption", what, err)
			}
		}
		if _, err := plain.Forget(t.Context(), key); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Forget without records: %v", err)
		}
		if runs.Load() != 0 {
			t.Error("fn ran")
		}
	})
}

// results records what an observer hears of Once.
type results struct {
	guard.NopObserver
	mu  sync.Mutex
	got map[string]int
}

func (r *results) add(what string, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if is {
		r.got[what]++
	}
}

func (r *results) WaitEnd(_ context.Context, _ guard.WaitInfo, w guard.WaitResult) {
	r.add("replayed", w.Replayed)
	r.add("joined", w.Joined)
	r.add("acquired", w.Err == nil && !w.Replayed && !w.Joined)
}

func (r *results) HoldEnd(_ context.Context, _ guard.WaitInfo, h guard.HoldResult) {
	r.add("kept", h.Recorded)
	r.add("not kept", errors.Is(h.Err, guard.ErrNotRecorded))
}

func TestOnce_ObserversHearOfResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &results{got: map[string]int{}}
		l, a, _ := recording(t, guard.WithObserver(seen))
		var runs atomic.Int64
		var wg sync.WaitGroup
		slow := func(context.Context) (int, error) {
			time.Sleep(time.Second)
			return 1, nil
		}
		for range 3 {
			wg.Go(func() { wantOnce(t, a, slow, 1) })
		}
		wg.Wait()
		wantOnce(t, a, value(2, &runs), 1)
		mend := func() {}
		_, _ = guard.Once(t.Context(), a, "other", time.Hour, func(context.Context) (int, error) {
			mend = l.Break()
			return 1, nil
		})
		mend()
		want := map[string]int{"acquired": 2, "joined": 2, "replayed": 1, "kept": 1, "not kept": 1}
		if fmt.Sprint(seen.got) != fmt.Sprint(want) {
			t.Errorf("observed %v, want %v", seen.got, want)
		}
	})
}
