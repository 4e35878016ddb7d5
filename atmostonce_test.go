package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// A marking is a counter whose marks can fail.
type marking struct {
	counter
	begins atomic.Int64
	begin  func(c *locker.Claim, r locker.Record) (string, error) // nil: that of memlocker
}

func (m *marking) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (string, error) {
	m.begins.Add(1)
	if m.begin != nil {
		return m.begin(c, r)
	}
	return m.Locker.Begin(ctx, c, r)
}

// atMostOnce returns two processes on one store that run functions at most
// once.
func atMostOnce(t *testing.T, opts ...guard.Option) (l *marking, a, b *guard.Guard) {
	t.Helper()
	opts = append(opts, guard.WithAtMostOnce())
	l = &marking{counter: counter{Locker: memlocker.New()}}
	return l, newGuard(t, l, opts...), newGuard(t, l.Peer(), opts...)
}

// wantInterrupted checks that nobody runs a function for key any more.
func wantInterrupted(t *testing.T, gs ...*guard.Guard) {
	t.Helper()
	for _, g := range gs {
		_, err := guard.Once(t.Context(), g, key, time.Hour, func(context.Context) (int, error) {
			t.Error("fn ran again")
			return 0, nil
		})
		if !errors.Is(err, guard.ErrInterrupted) || guard.Ran(err) {
			t.Errorf("a later call: %v, want ErrInterrupted", err)
		}
	}
}

// While the first function runs, more calls wait in both processes.
func TestOnce_AFunctionThatLeavesNoResultRunsAtMostOnce(t *testing.T) {
	for what, fn := range map[string]func(l *marking) error{
		"error":   func(*marking) error { return errors.New("timeout") },
		"panic":   func(*marking) error { panic("no") },
		"goexit":  func(*marking) error { runtime.Goexit(); return nil },
		"loss":    func(l *marking) error { l.Lose(key); return nil },
		"maxhold": func(*marking) error { time.Sleep(time.Minute); return nil },
		"hangs":   func(*marking) error { time.Sleep(10 * time.Minute); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, a, b := atMostOnce(t, guard.WithMaxWait(2*time.Minute))
				var runs atomic.Int64
				var wg sync.WaitGroup
				inside := make(chan struct{})
				wg.Go(func() {
					defer func() { _ = recover() }()
					_, _ = guard.Once(t.Context(), a, key, time.Hour, func(context.Context) (int, error) {
						close(inside)
						time.Sleep(time.Second)
						runs.Add(1)
						return 1, fn(l)
					})
				})
				<-inside
				for i := range 20 {
					wg.Go(func() { wantInterrupted(t, []*guard.Guard{a, b}[i%2]) })
				}
				wg.Wait()
				wantInterrupted(t, a, b)
				if forgot, err := b.Forget(t.Context(), key); !forgot || err != nil {
					t.Errorf("Forget: %v, %v", forgot, err)
				}
				wantOnce(t, a, value(2, &runs), 2)
				if runs.Load() != 2 {
					t.Errorf("%d runs, want one before Forget and one after it", runs.Load())
				}
			})
		})
	}
}

// A process that ends leaves its key to the TTL.
func TestOnce_AfterACrashNobodyRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := atMostOnce(t, guard.WithMaxWait(time.Minute))
		var wg sync.WaitGroup
		inside, over := make(chan struct{}), make(chan struct{})
		wg.Go(func() {
			_, _ = guard.Once(t.Context(), a, key, time.Second, func(context.Context) (int, error) {
				close(inside)
				<-over
				return 1, nil
			})
		})
		<-inside
		wg.Go(func() { wantInterrupted(t, b) })
		wg.Go(func() { _ = b.Do(t.Context(), key, sleeps(time.Second)) }) // gets the key first, or last
		time.Sleep(30 * time.Second)                                      // many times the ttl
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_ = a.Close(gone)
		close(over)
		wg.Wait()
		wantInterrupted(t, b)
		if forgot, err := b.Forget(t.Context(), key); !forgot || err != nil {
			t.Errorf("Forget: %v, %v", forgot, err)
		}
		var runs atomic.Int64
		wantOnce(t, b, value(2, &runs), 2)
	})
}

// Planted fault: the next in line takes over the grant, and with it the mark.
func TestOnce_AfterNothingDoneTheNextRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := atMostOnce(t, guard.WithMaxWait(time.Minute))
		cause := errors.New("connection refused")
		var runs, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				_, err := guard.Once(t.Context(), []*guard.Guard{a, b}[i%2], key, time.Hour,
					func(context.Context) (int, error) {
						time.Sleep(time.Second)
						if n := runs.Add(1); n <= 3 {
							return 0, fmt.Errorf("charge: %w", guard.NothingDone(cause))
						}
						return 7, nil
					})
				if errors.Is(err, cause) && err.Error() == "charge: connection refused" {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 4 || refused.Load() != 3 {
			t.Errorf("%d runs, %d errors, want 4 and 3", runs.Load(), refused.Load())
		}
		_, err := guard.Once(t.Context(), a, "lost", time.Hour, func(context.Context) (int, error) {
			l.Lose("lost")
			return 0, guard.NothingDone(cause)
		})
		if !errors.Is(err, cause) || !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %v, want fn's error and the loss", err)
		}
		if v, err := guard.Once(t.Context(), b, "lost", time.Hour, value(8, &runs)); v != 8 || err != nil {
			t.Errorf("after a loss in which nothing was done: %d, %v", v, err)
		}
	})
}

// A final error is the outcome, and no function that left none.
func TestOnce_AFinalErrorIsKeptUnderAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := atMostOnce(t)
		runs := 0
		for _, g := range []*guard.Guard{a, b, a} {
			_, err := guard.Once(t.Context(), g, key, time.Hour, func(context.Context) (int, error) {
				runs++
				return 0, guard.Final("declined", errors.New("card declined"))
			})
			if !errors.Is(err, &guard.FinalError{Code: "declined"}) || runs != 1 {
				t.Errorf("got %v after %d runs, want the final error of one", err, runs)
			}
		}
	})
}

// A call of Once inside has done nothing, but the function around it has.
func TestOnce_NothingDoneIsOfItsOwnFunction(t *testing.T) {
	for name, within := range map[string][]guard.Option{"the same": nil, "plain": {guard.WithName("plain")}} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("connection refused")
			_, a, b := atMostOnce(t)
			inner := a
			if within != nil {
				inner = newGuard(t, memlocker.New(), within...)
			}
			refused := func(context.Context) (int, error) { return 0, guard.NothingDone(cause) }
			_, err := guard.Once(t.Context(), a, key, time.Hour, func(ctx context.Context) (int, error) {
				_, err := guard.Once(ctx, inner, "ledger", time.Hour, refused) // after the charge
				return 0, fmt.Errorf("write the ledger: %w", err)
			})
			if !errors.Is(err, cause) || err.Error() != "write the ledger: connection refused" {
				t.Errorf("%s: %v", name, err)
			}
			wantInterrupted(t, a, b)
		})
	}
}

func TestOnce_OnlyAtMostOnceTakesANilResultForAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := atMostOnce(t)
		o := guard.OnceOptions{TTL: time.Hour, Fingerprint: []byte("one")}
		none := func(context.Context) ([]byte, error) { return nil, nil }
		if r, err := a.OnceBytes(t.Context(), key, o, none); !r.Fresh || err != nil {
			t.Errorf("got %+v, %v", r, err)
		}
		if r, err := b.OnceBytes(t.Context(), key, o, none); r.Fresh || !errors.Is(err, guard.ErrInterrupted) {
			t.Errorf("got %+v, %v, want ErrInterrupted", r, err)
		}
		o.Fingerprint = []byte("two")
		if _, err := b.OnceBytes(t.Context(), key, o, none); !errors.Is(err, guard.ErrOtherPayload) {
			t.Errorf("got %v, want ErrOtherPayload", err)
		}
	})
}

// Without the mark the function must not run. A mark whose answer was lost is
// removed again.
func TestOnce_WithoutAMarkNothingRuns(t *testing.T) {
	for what, lost := range map[string]bool{"request": false, "answer": true} {
		synctest.Test(t, func(t *testing.T) {
			l, a, b := atMostOnce(t)
			var runs atomic.Int64
			l.begin = func(c *locker.Claim, r locker.Record) (string, error) {
				if lost {
					_, _ = l.Locker.Begin(t.Context(), c, r)
				}
				return "", locker.ErrUnavailable
			}
			_, err := guard.Once(t.Context(), a, key, time.Hour, value(1, &runs))
			if !errors.Is(err, guard.ErrUnavailable) || guard.Ran(err) || runs.Load() != 0 {
				t.Errorf("the %s of the mark is lost: %v, %d runs, want ErrUnavailable and none", what, err,
					runs.Load())
			}
			if n := l.begins.Load(); n < 3 || n > 60 {
				t.Errorf("%d requests in a second, want those of the backoff", n)
			}
			wantOnce(t, b, value(2, &runs), 2)
		})
	}
}

// A mark without an answer is sent again, and the lease is lost meanwhile.
func TestOnce_ALeaseThatIsLostBeforeTheMarkRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := atMostOnce(t)
		var runs atomic.Int64
		l.begin = func(c *locker.Claim, r locker.Record) (string, error) {
			l.Lose(c.Key)
			return l.Locker.Begin(t.Context(), c, r)
		}
		_, err := guard.Once(t.Context(), a, key, time.Hour, value(1, &runs))
		if !errors.Is(err, guard.ErrUnavailable) || guard.Ran(err) || runs.Load() != 0 {
			t.Errorf("got %v, %d runs, want ErrUnavailable and none", err, runs.Load())
		}
		wantOnce(t, b, value(2, &runs), 2)
	})
}

// A mishap is an observer that does something when its Traceparent is called
// for the at-th time.
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

func TestOnce_AnObserverThatPanicsAtTheMarkLeavesNoKey(t *testing.T) {
	for what, does := range map[string]func(){"panic": func() { panic("observer") }, "goexit": runtime.Goexit} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, a, b := atMostOnce(t, guard.WithMaxWait(0))
				bad := a.With(guard.WithObserver(&mishap{at: 2, does: does}))
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { _ = recover() }()
					_, _ = guard.Once(t.Context(), bad, key, time.Hour, func(context.Context) (int, error) {
						t.Error("fn ran without a mark")
						return 0, nil
					})
				})
				wg.Wait()
				var runs atomic.Int64
				wantOnce(t, b, value(1, &runs), 1)
				if n := l.begins.Load(); n != 0 {
					t.Errorf("%d marks of the call that ended", n)
				}
			})
		})
	}
}

func TestOnce_AMarkOutlastsItsFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, _ := atMostOnce(t, guard.WithMaxHold(time.Minute))
		var ttl time.Duration
		l.begin = func(c *locker.Claim, r locker.Record) (string, error) {
			ttl = r.TTL
			return l.Locker.Begin(t.Context(), c, r)
		}
		var runs atomic.Int64
		wantOnce(t, a, value(1, &runs), 1)
		if ttl != time.Hour+time.Minute {
			t.Errorf("the TTL of the mark is %v, want ttl and MaxHold", ttl)
		}
		if _, err := guard.Once(t.Context(), a, "for ever", locker.MaxRecordTTL, value(1, &runs)); err != nil ||
			ttl != locker.MaxRecordTTL+time.Minute {
			t.Errorf("the longest ttl: %v, the mark has %v", err, ttl)
		}
	})
}

func TestOnce_AtMostOnceRefusesWhatItCannotPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := atMostOnce(t)
		plain := newGuard(t, testguard.Plain{Locker: memlocker.New()}, guard.WithAtMostOnce())
		for g, unsupported := range map[*guard.Guard]bool{a.With(guard.WithMaxHold(0)): false, plain: true} {
			var runs atomic.Int64
			_, err := guard.Once(t.Context(), g, key, time.Hour, value(1, &runs))
			if !errors.Is(err, guard.ErrInvalidOption) || errors.Is(err, errors.ErrUnsupported) != unsupported ||
				runs.Load() != 0 {
				t.Errorf("got %v, want ErrInvalidOption, unsupported %v", err, unsupported)
			}
		}
	})
}

// A store that is away for a second has few requests of one release.
func TestOnce_AKeepWithoutAnAnswerBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, _ := recording(t)
		_, err := guard.Once(t.Context(), a, key, time.Hour, func(context.Context) (int, error) {
			l.Break()
			return 1, nil
		})
		if n := l.asks()[1]; !errors.Is(err, guard.ErrNotRecorded) || n < 3 || n > 60 {
			t.Errorf("%v after %d requests, want ErrNotRecorded after those of the backoff", err, n)
		}
	})
}
