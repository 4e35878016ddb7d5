package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestDo_AnOutageIsToldToThoseInLineToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Second))
		mend := b.mem.Break()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { wantErr(t, b.Do(t.Context(), key, nop), guard.ErrUnavailable) })
		}
		synctest.Wait()
		_, err := b.TryAcquire(t.Context(), key)
		wantErr(t, err, guard.ErrUnavailable)
		wg.Wait()
		mend()
	})
}

func TestDo_AnAnswerThatCameTooLateLeavesTheGateAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithTTL(time.Second), guard.WithBackoff(time.Second, 10*time.Second))
		elsewhere := make(chan *guard.Lease, 1)
		b.spy.set(func(s *spy) {
			s.acquire = func(_ context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
				token, err := next()
				if s.acquires.Load() == 1 {
					time.Sleep(800 * time.Millisecond)
					b.mem.Lose(key)
					elsewhere <- must(b.other.TryAcquire(t.Context(), key))
				}
				return token, err
			}
		})
		done := make(chan time.Time, 1)
		go func() {
			l := must(b.With(guard.WithMaxWait(30*time.Second)).Acquire(t.Context(), key))
			done <- time.Now()
			_ = l.Release(t.Context())
		}()
		time.Sleep(3 * time.Second) // it is queued behind the other process now
		released := time.Now()
		_ = (<-elsewhere).Release(t.Context())
		if d := (<-done).Sub(released); d != 0 {
			t.Errorf("woken %v after the release", d)
		}
	})
}

func TestDoAll_GivesEachKeyAnAttemptOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
			b := newBench(t, guard.WithMaxWait(wait))
			b.spy.set(func(s *spy) {
				s.acquire = func(_ context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
					time.Sleep(30 * time.Millisecond) // a slow network
					return next()
				}
			})
			var keys []string
			for i := range 20 {
				keys = append(keys, fmt.Sprint("k", i))
			}
			if err := b.DoAll(t.Context(), keys, nop); err != nil {
				t.Errorf("MaxWait %v: %v although all keys are free", wait, err)
			}
		}
	})
}

func TestDo_TheWaitIsBoundedAcrossTheEndOfAnOuterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		outer := must(b.Acquire(t.Context(), key))
		inner := must(b.Acquire(outer.Context(), key))
		released := make(chan error, 1)
		go func() { released <- outer.Release(t.Context()) }()
		synctest.Wait()
		b.spy.set(func(s *spy) { s.acquire = hangAcquire })
		start := time.Now()
		done := make(chan error, 1)
		go func() { done <- b.Do(context.WithoutCancel(outer.Context()), key, nop) }()
		time.Sleep(2990 * time.Millisecond)
		_ = inner.Release(t.Context())
		if err := <-done; err == nil || time.Since(start) > 3050*time.Millisecond {
			t.Errorf("waited %v: %v", time.Since(start), err)
		}
		if err := <-released; err != nil {
			t.Error(err)
		}
	})
}

func TestDo_AWaitWithoutEndIsOneTryForAFreeKey(t *testing.T) {
	b := newBench(t, guard.WithMaxWait(math.MaxInt64))
	if err := b.Do(t.Context(), key, nop); err != nil || b.spy.acquires.Load() != 1 {
		t.Errorf("%v after %d tries", err, b.spy.acquires.Load())
	}
}

// panicky panics once, in the method named.
type panicky struct {
	guard.NopObserver
	where string
	done  bool
}

func (p *panicky) in(where string) {
	if p.where == where && !p.done {
		p.done = true
		panic("observer")
	}
}

func (p *panicky) WaitStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	p.in("WaitStart")
	return ctx
}
func (p *panicky) WaitEnd(context.Context, guard.WaitInfo, guard.WaitResult) { p.in("WaitEnd") }
func (p *panicky) HoldStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	p.in("HoldStart")
	return ctx
}
func (p *panicky) HoldEnd(context.Context, guard.WaitInfo, guard.HoldResult) { p.in("HoldEnd") }
func (p *panicky) Traceparent(context.Context) string                        { p.in("Traceparent"); return "" }

func TestDo_APanicOnTheWayToTheFunctionCostsNoKey(t *testing.T) {
	for _, where := range []string{"WaitStart", "WaitEnd", "HoldStart", "HoldEnd", "Traceparent", "the locker"} {
		for _, nested := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &spy{Locker: memlocker.New()}
				p := &panicky{where: where, done: nested}
				s.acquire = func(_ context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
					p.in("the locker")
					return next()
				}
				g := newGuard(t, s, guard.WithObserver(p), guard.WithMaxHold(0))
				func() {
					defer func() { _ = recover() }()
					_ = g.Do(t.Context(), key, func(ctx context.Context) error {
						p.done = false
						return g.Do(ctx, key, nop)
					})
				}()
				p.done = true
				time.Sleep(2 * time.Second)
				if err := g.Do(t.Context(), key, nop); err != nil {
					t.Errorf("%s, nested %v: the key is stuck: %v", where, nested, err)
				}
			}) // Close finds no call left
		}
	}
}

func TestDo_HungRenewalsOfLongLeasesCostNoShortLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(0))
		long := b.With(guard.WithTTL(60 * time.Second))
		b.spy.set(func(s *spy) {
			s.renew = func(ctx context.Context, next func() []error) []error {
				if s.renewals.Load() <= 4 {
					<-ctx.Done() // like a silent node of a cluster
					return []error{guard.ErrUnavailable}
				}
				return next()
			}
		})
		var leases []*guard.Lease
		for _, k := range []string{"a", "b", "c", "d"} {
			leases = append(leases, must(long.Acquire(t.Context(), k)))
			time.Sleep(time.Second)
		}
		for b.spy.renewals.Load() < 4 {
			time.Sleep(10 * time.Millisecond)
		}
		leases = append(leases, must(b.With(guard.WithTTL(2*time.Second)).Acquire(t.Context(), key)))
		time.Sleep(20 * time.Second)
		for _, l := range leases {
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("%s: %v", l.Key(), err)
			}
		}
	})
}

func TestDo_ReentryDoesNotRunUnderAnEndedContext(t *testing.T) {
	b := newBench(t)
	err := b.Do(t.Context(), key, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return b.Do(ctx, key, func(context.Context) error { t.Error("ran"); return nil })
	})
	wantErr(t, err, guard.ErrNotAcquired, context.Canceled)
}

func TestDo_ALocalHolderHasItsInstance(t *testing.T) {
	b := newBench(t)
	l := must(b.Acquire(t.Context(), key))
	var here, there *guard.HeldError
	_, err := b.TryAcquire(t.Context(), key)
	_, err2 := b.other.TryAcquire(t.Context(), key)
	if !errors.As(err, &here) || !errors.As(err2, &there) || here.Holder != there.Holder || here.Holder.Instance == "" {
		t.Errorf("holders %+v and %+v", here, there)
	}
	_ = l.Release(t.Context())
}
