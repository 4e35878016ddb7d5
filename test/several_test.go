package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// together is a locker of several keys that counts its requests. The answer of
// an AcquireAll is lost while mute is set, and says that a part of it was not
// sent while partly is set.
type together struct {
	*memlocker.Locker
	all, one, back atomic.Int64
	mute, partly   atomic.Bool

	prefix atomic.Bool // of the last AcquireAll
	held   atomic.Bool // of the last Acquire: it knew that the key was held

	answered func() // if not nil: called before an AcquireAll returns
}

func (l *together) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	l.all.Add(1)
	l.prefix.Store(prefix)
	as, held, err = l.Locker.AcquireAll(ctx, cs, prefix)
	if l.answered != nil {
		l.answered()
	}
	if l.mute.Load() {
		return nil, 0, guard.ErrUnavailable
	}
	if l.partly.Load() { // one node of a cluster has got its part
		return nil, 0, fmt.Errorf("%w: %w", guard.ErrUnavailable, locker.ErrUnsent)
	}
	return as, held, err
}

func (l *together) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.one.Add(1)
	l.held.Store(t.Held)
	return l.Locker.Acquire(ctx, c, t)
}

func (l *together) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(i int, r locker.Released, err error),
) {
	l.back.Add(1)
	l.Locker.ReleaseAll(ctx, cs, ends, answered)
}

// expect fails the test unless these requests were sent since the last expect.
func (l *together) expect(t *testing.T, all, one, back int64) {
	t.Helper()
	gotAll, gotOne, gotBack := l.all.Swap(0), l.one.Swap(0), l.back.Swap(0)
	if gotAll != all || gotOne != one || gotBack != back {
		t.Errorf("%d AcquireAll, %d Acquire, %d ReleaseAll; want %d, %d, %d", gotAll, gotOne, gotBack, all, one, back)
	}
}

// inGroups runs test in a bubble with two guards on one store.
func inGroups(t *testing.T, test func(t *testing.T, l *together, g, other *guard.Guard), opts ...guard.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &together{Locker: memlocker.New()}
		open := func(l guard.Locker) *guard.Guard {
			g := must(guard.New(l, append(opts, guard.WithLogger(slog.New(slog.DiscardHandler)))...))
			t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
			return g
		}
		test(t, l, open(l), open(l.Peer()))
	})
}

// allFree fails the test unless other can have each key within two seconds.
func allFree(t *testing.T, other *guard.Guard, keys ...string) {
	t.Helper()
	time.Sleep(2 * time.Second) // for what is released in the background
	for _, key := range keys {
		if l, err := other.TryAcquire(t.Context(), key); err != nil {
			t.Errorf("%s was left: %v", key, err)
		} else {
			_ = l.Release(t.Context())
		}
	}
}

// One error is for all keys. That a part of them was not sent says nothing of
// the others.
func TestDoAll_KeysOfARequestThatWasPartlySentAreFreed(t *testing.T) {
	inGroups(t, func(t *testing.T, l *together, g, other *guard.Guard) {
		t.Helper()
		l.partly.Store(true)
		once := g.With(guard.WithMaxWait(0))
		if err := once.DoAll(t.Context(), manyKeys(3), nop); !errors.Is(err, guard.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		allFree(t, other, manyKeys(3)...)
	})
}

func TestDoAll_FreeKeysTakeTwoRequests(t *testing.T) {
	inGroups(t, func(t *testing.T, l *together, g, other *guard.Guard) {
		t.Helper()
		for n, requests := range map[int]int64{2: 1, 3: 1, 64: 1, 65: 1, 130: 3} {
			var last uint64
			err := g.DoAll(t.Context(), manyKeys(n), func(ctx context.Context) error {
				for _, key := range manyKeys(n) {
					if _, err := other.TryAcquire(ctx, key); err == nil {
						t.Errorf("%s is free", key)
					}
					lease, found := guard.LeaseOf(ctx, key)
					if !found {
						t.Fatalf("no lease on %s", key)
					}
					if token, err := lease.FencingToken(ctx); err != nil || token == last {
						t.Errorf("token %d, %v", token, err)
					} else {
						last = token
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			single := int64(0)
			if n%locker.MaxSeveral == 1 { // the last one by itself
				single = 1
			}
			l.expect(t, requests, single, 1)
			allFree(t, other, manyKeys(n)...)
		}
	}, guard.WithFencing())
}

func TestDoAll_AHeldKeyIsWaitedForWithTheKeysInFrontOfIt(t *testing.T) {
	inGroups(t, func(t *testing.T, l *together, g, other *guard.Guard) {
		t.Helper()
		held := must(other.Acquire(t.Context(), "c"))
		done := make(chan error, 1)
		go func() { done <- g.DoAll(t.Context(), []string{"e", "d", "c", "b", "a"}, nop) }()
		synctest.Wait()
		if l.expect(t, 1, 1, 0); !l.prefix.Load() || !l.held.Load() {
			t.Error("the wait does not go on from what the request has told")
		}
		time.Sleep(time.Second)
		for key, free := range map[string]bool{"a": false, "b": false, "d": true, "e": true} {
			got, err := other.TryAcquire(t.Context(), key)
			if (err == nil) != free {
				t.Errorf("%s while c is waited for: %v", key, err)
			}
			if got != nil {
				_ = got.Release(t.Context())
			}
		}
		_ = held.Release(t.Context())
		if err := <-done; err != nil {
			t.Error(err)
		}
		allFree(t, other, "a", "b", "c", "d", "e")
	})
}

func TestDoAll_OneAttemptTakesAllKeysOrNone(t *testing.T) {
	inGroups(t, func(t *testing.T, l *together, g, other *guard.Guard) {
		t.Helper()
		keys := []string{"a", "b", "c"}
		held := must(other.Acquire(t.Context(), "b"))
		var refusal *guard.HeldError
		if err := g.DoAll(t.Context(), keys, nop); !errors.As(err, &refusal) || refusal.Key != "b" || guard.Ran(err) {
			t.Errorf("got %v, want that b is held", err)
		} else if refusal.Holder == (guard.Holder{}) {
			t.Error("the refusal does not tell the holder")
		}
		if l.expect(t, 1, 0, 0); l.prefix.Load() {
			t.Error("a call with one attempt has taken keys in front")
		}
		for _, key := range []string{"a", "c"} { // at once
			_ = must(other.TryAcquire(t.Context(), key)).Release(t.Context())
		}
		_ = held.Release(t.Context())
		if err := g.DoAll(t.Context(), keys, nop); err != nil {
			t.Error(err)
		}
		l.mute.Store(true)
		if err := g.DoAll(t.Context(), keys, nop); !errors.Is(err, guard.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		allFree(t, other, keys...)
	}, guard.WithMaxWait(0))
}

// The keys were acquired, and nobody knows it.
func TestDoAll_ALostAnswerForSeveralKeysLeavesNothing(t *testing.T) {
	inGroups(t, func(t *testing.T, l *together, g, other *guard.Guard) {
		t.Helper()
		l.mute.Store(true)
		if err := g.DoAll(t.Context(), manyKeys(5), nop); err != nil {
			t.Error(err)
		}
		allFree(t, other, manyKeys(5)...)
	})
}

// The caller has gone while the request for its keys was under way.
func TestDoAll_ACallerThatHasGoneGetsNoneOfItsKeys(t *testing.T) {
	inGroups(t, func(t *testing.T, l *together, g, other *guard.Guard) {
		t.Helper()
		ctx, leave := context.WithCancel(t.Context())
		l.answered = leave
		err := g.DoAll(ctx, manyKeys(3), func(context.Context) error {
			t.Error("ran")
			return nil
		})
		if !errors.Is(err, context.Canceled) || guard.Ran(err) {
			t.Errorf("%v, want context.Canceled", err)
		}
		l.answered = nil
		allFree(t, other, manyKeys(3)...)
	})
}

func TestClose_EndsAWaitForSeveralKeys(t *testing.T) {
	inGroups(t, func(t *testing.T, _ *together, g, other *guard.Guard) {
		t.Helper()
		held := must(other.Acquire(t.Context(), "b"))
		done := make(chan error, 1)
		go func() { done <- g.DoAll(t.Context(), []string{"a", "b", "c"}, nop) }()
		time.Sleep(time.Second)
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantErr(t, <-done, guard.ErrClosed)
		_ = held.Release(t.Context())
		allFree(t, other, "a", "b", "c")
	})
}

func TestDoAll_ALostKeyOfSeveralEndsThemAll(t *testing.T) {
	inGroups(t, func(t *testing.T, l *together, g, other *guard.Guard) {
		t.Helper()
		err := g.DoAll(t.Context(), manyKeys(5), func(ctx context.Context) error {
			l.Lose("k00003")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		wantErr(t, err, guard.ErrLeaseLost)
		allFree(t, other, manyKeys(5)...)
	})
}

// Calls of two processes want random keys, some several and some one.
func TestDoAll_CallsExcludeEachOtherWithoutDeadlock(t *testing.T) {
	inGroups(t, func(t *testing.T, _ *together, g, other *guard.Guard) {
		t.Helper()
		var mu sync.Mutex // guards inside
		inside := map[string]bool{}
		mark := func(keys []string, in bool) {
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				if inside[key] == in {
					t.Errorf("%s: two at once", key)
				}
				inside[key] = in
			}
		}
		var wg sync.WaitGroup
		for caller := range 16 {
			by := []*guard.Guard{g, other}[caller%2]
			wg.Go(func() {
				for range 40 {
					var keys []string
					for range 1 + rand.IntN(4) {
						keys = append(keys, fmt.Sprint("k", rand.IntN(9)))
					}
					slices.Sort(keys)
					keys = slices.Compact(keys)
					section := func(context.Context) error {
						mark(keys, true)
						time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
						mark(keys, false)
						return nil
					}
					var err error
					if len(keys) == 1 {
						err = by.Do(t.Context(), keys[0], section)
					} else {
						err = by.DoAll(t.Context(), keys, section)
					}
					if err != nil {
						t.Errorf("%q: %v", keys, err)
					}
				}
			})
		}
		wg.Wait()
		var all []string
		for i := range 9 {
			all = append(all, fmt.Sprint("k", i))
		}
		allFree(t, g, all...)
	}, guard.WithMaxWait(time.Minute), guard.WithMaxWaiters(0))
}

// A blowing logger panics at each line.
type blowing struct{ slog.Handler }

func (blowing) Enabled(context.Context, slog.Level) bool  { return true }
func (blowing) Handle(context.Context, slog.Record) error { panic("logger") }

// The line about an outage comes when a part of the keys was given up already.
func TestDoAll_APanicOfALoggerGivesUpEachKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &together{Locker: memlocker.New()}
		g := must(guard.New(l, guard.WithLogger(slog.New(blowing{}))))
		l.mute.Store(true)
		func() {
			defer func() { _ = recover() }()
			_ = g.DoAll(t.Context(), manyKeys(3), nop)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Close(ctx); err != nil { // which counts the calls
			t.Error(err)
		}
	})
}

// The release of b makes the claim of the call that waits for it. The release
// of a comes behind it.
func TestDoAll_APanicInAReleaseLeavesNoKeyBehind(t *testing.T) {
	p := &panicky{where: "Traceparent", done: true}
	inGroups(t, func(t *testing.T, l *together, g, other *guard.Guard) {
		t.Helper()
		waited := make(chan error, 1)
		func() {
			defer func() { _ = recover() }()
			_ = g.DoAll(t.Context(), []string{"a", "b"}, func(context.Context) error {
				go func() { waited <- g.With(guard.WithTTL(time.Second)).Do(t.Context(), "b", nop) }()
				synctest.Wait()
				p.done = false
				return nil
			})
		}()
		wantErr(t, <-waited, nil)
		allFree(t, other, "a", "b")
	}, guard.WithObserver(p), guard.WithMaxWait(time.Minute))
}

// Nobody takes its keys against the order: one call goes on to z inside m, the
// other one waits for m.
func TestDoAll_HoldsNoKeyBehindOneThatItWaitsFor(t *testing.T) {
	inGroups(t, func(t *testing.T, _ *together, g, _ *guard.Guard) {
		t.Helper()
		err := g.Do(t.Context(), "m", func(ctx context.Context) error {
			done := make(chan error)
			go func() {
				done <- g.Do(ctx, "m", func(ctx context.Context) error {
					time.Sleep(time.Second)
					return g.Do(ctx, "z", nop)
				})
			}()
			synctest.Wait()
			return errors.Join(g.DoAll(ctx, []string{"a", "m", "z"}, nop), <-done)
		})
		if err != nil {
			t.Error(err)
		}
	})
}
