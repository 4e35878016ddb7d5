package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A panicking handler panics at each line.
type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool        { return true }
func (p panicking) WithAttrs([]slog.Attr) slog.Handler            { return p }
func (p panicking) WithGroup(string) slog.Handler                 { return p }
func (panicking) Handle(context.Context, slog.Record) (err error) { panic("logger") }

// loud panics in each method that runs in the caller's goroutine when a hold
// ends.
type loud struct{ guard.NopObserver }

func (loud) HoldEnd(context.Context, guard.WaitInfo, guard.HoldResult)  { panic("observer") }
func (loud) LeaseLost(context.Context, guard.WaitInfo, error)           { panic("observer") }
func (loud) Renewed(context.Context, guard.WaitInfo, guard.RenewResult) {}

func recovered(f func()) {
	defer func() { _ = recover() }()
	f()
}

// TestDo_ALoggerOrObserverThatPanicsCostsNoKey covers the lines that are logged in
// the caller's goroutine. These tell of a release that is not confirmed, a
// release that finds the lease lost, and an outage. A panic in a goroutine of
// the guard's ends the process.
func TestDo_ALoggerOrObserverThatPanicsCostsNoKey(t *testing.T) {
	verbs := map[string]func(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error{
		"Do": func(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error {
			return g.Do(ctx, key, fn)
		},
		"DoAll": func(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error {
			return g.DoAll(ctx, []string{"a", key, "z"}, fn)
		},
	}
	answers := map[string]error{"unconfirmed": guard.ErrUnavailable, "lost": guard.ErrLeaseLost, "sound": nil}
	for verb, call := range verbs {
		for name, answer := range answers {
			for _, opt := range []guard.Option{guard.WithLogger(slog.New(panicking{})), guard.WithObserver(loud{})} {
				t.Run(fmt.Sprintf("%s, %s, %T", verb, name, opt), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := &spy{Locker: memlocker.New()}
						s.release = func(_ context.Context, next releases) (locker.Released, error) {
							if answer != nil {
								return locker.Released{}, answer
							}
							return next()
						}
						g := newGuard(t, s, opt, guard.WithMaxHold(0))
						recovered(func() { _ = call(t.Context(), g, nop) })
						s.set(func(s *spy) { s.release = nil })
						time.Sleep(11 * time.Second) // "lost": nobody must free a key that is not ours
						if l, err := newGuard(t,
							s.Locker.(*memlocker.Locker).Peer()).TryAcquire(t.Context(), key); err != nil {
							t.Errorf("the key is stuck: %v", err)
						} else {
							_ = l.Release(t.Context())
						}
						recovered(func() {
							if err := g.Do(t.Context(), key, nop); err != nil && !errors.Is(err, guard.ErrLeaseLost) {
								t.Errorf("the gate is stuck: %v", err)
							}
						})
					})
				})
			}
		}
	}
}

func TestDo_ALoggerThatPanicsAtAnUnconfirmedReleaseDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithLogger(slog.New(panicking{})))
		b.spy.set(func(s *spy) {
			s.release = func(context.Context, func() (locker.Released, error)) (locker.Released, error) {
				return locker.Released{}, guard.ErrUnavailable // the answer is lost on its way
			}
		})
		start := time.Now()
		recovered(func() { _ = b.Do(t.Context(), key, nop) })
		if err := newGuard(t, b.mem.Peer()).Do(t.Context(), key, nop); err != nil || time.Since(start) != 0 {
			t.Errorf("nobody cleaned up: %v after %v", err, time.Since(start))
		}
	})
}

func TestDo_ALoggerThatPanicsAtAnOutageCostsNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithLogger(slog.New(panicking{})))
		mend := b.mem.Break()
		panics := func() (did bool) {
			defer func() { did = recover() != nil }()
			_ = b.Do(t.Context(), key, nop)
			return false
		}
		if !panics() {
			t.Error("the outage was not logged when it began")
		}
		mend()
		if !panics() {
			t.Error("the outage was not logged when it ended") // the try that acquires ends it
		}
		synctest.Wait()
		for _, g := range []*guard.Guard{b.other, b.Guard} {
			if err := g.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop); err != nil {
				t.Errorf("the key or its gate is stuck: %v", err)
			}
		}
	})
}

func TestDoAll_AnObserverThatPanicsInDoAllLeavesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithObserver(loud{}), guard.WithMaxHold(0))
		quiet := newGuard(t, b.mem.Peer(), guard.WithMaxWait(0))
		keys := manyKeys(20)
		last := must(quiet.Acquire(t.Context(), keys[19]))
		recovered(func() { _ = b.DoAll(t.Context(), keys, nop) }) // refused for the last key
		_ = last.Release(t.Context())
		recovered(func() { _ = b.DoAll(t.Context(), keys, nop) })
		for _, k := range keys {
			if err := quiet.Do(t.Context(), k, nop); err != nil {
				t.Errorf("%s was left: %v", k, err)
			}
		}
	})
}

// A mishap is an observer that does something when its Traceparent is called for
// the at-th time.
type mishap struct {
	guard.NopObserver

	at    int64
	calls atomic.Int64
	does  func()
}

func (m *mishap) Traceparent(context.Context) string {
	if m.calls.Add(1) == m.at {
		m.does()
	}
	return ""
}

// The bid of the next in line is made while the turn before it is released, and
// asks the observer of the next.
func TestRelease_AnObserverThatPanicsForTheNextLeavesNoKey(t *testing.T) {
	for what, does := range map[string]func(){"panic": func() { panic("observer") }, "goexit": runtime.Goexit} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, guard.WithMaxHold(0))
				other := b.With(guard.WithTTL(9*time.Second), // so that it does not go on with the grant
					guard.WithObserver(&mishap{at: 1, does: does}))
				var wg sync.WaitGroup
				start, ran := time.Now(), false
				wg.Go(func() {
					defer func() { _ = recover() }()
					_ = b.Do(t.Context(), key, sleeps(time.Second))
				})
				synctest.Wait()
				wg.Go(func() {
					_ = other.Do(t.Context(), key, func(context.Context) error { ran = true; return nil })
				})
				wg.Wait()
				if err := b.other.Do(t.Context(), key, nop); err != nil || !ran || time.Since(start) > 2*time.Second {
					t.Errorf("after %v: %v, the next ran: %v", time.Since(start), err, ran)
				}
			}) // Close finds no call left
		})
	}
}
