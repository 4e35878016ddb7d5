package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

func TestFencingToken_RisesInTheOrderOfTurns(t *testing.T) {
	for name, opts := range map[string][]guard.Option{
		"fetched with the key": {guard.WithFencing()},
		"fetched when asked":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, append(opts, guard.WithMaxWait(time.Hour))...)
				var last uint64
				asked := 0
				var wg sync.WaitGroup
				for i := range 300 {
					g := b.Guard
					if i%3 == 0 {
						g = b.other
					}
					wg.Go(func() {
						err := g.Do(t.Context(), key, func(ctx context.Context) error {
							time.Sleep(time.Millisecond) // so that a line forms
							if opts == nil && i%5 == 0 {
								return nil // does not ask
							}
							token, err := guard.FencingToken(ctx)
							again, _ := guard.FencingToken(ctx)
							if err != nil || token <= last || again != token {
								t.Errorf("token %d, again %d, after %d: %v", token, again, last, err)
							}
							last = token
							asked++
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if n := b.spy.fences.Load(); opts != nil && n != 0 || n > 20 {
					t.Errorf("%d fetches for %d tokens", n, asked)
				}
			})
		})
	}
}

func TestFencingToken_ATurnThatIsOverGetsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithFencing())
		var old *guard.Lease
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			old, _ = guard.LeaseFrom(ctx)
			_, err := old.FencingToken(ctx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = old.FencingToken(t.Context())
		wantErr(t, err, guard.ErrLeaseLost)

		l := must(b.Acquire(t.Context(), key))
		b.mem.Lose(key)
		<-l.Context().Done()
		_, err = l.FencingToken(t.Context())
		wantErr(t, err, guard.ErrLeaseLost)
		_, err = guard.FencingToken(l.Context())
		wantErr(t, err, guard.ErrLeaseLost)
		_ = l.Release(t.Context())

		l = must(b.With(guard.WithoutRenewal()).Acquire(t.Context(), key)) // another grant, without a block
		b.mem.Lose(key)
		_ = l.Release(t.Context())
	})
}

// The next turn may overtake a fetch that a turn began. The late answer must
// then go to nobody.
func TestFencingToken_ALateFetchIsThrownAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Minute))
		late := make(chan struct{})
		b.spy.set(func(s *spy) {
			s.fence = func(_ context.Context, next func() (uint64, error)) (uint64, error) {
				token, err := next()
				if s.fences.Load() == 1 {
					<-late
				}
				return token, err
			}
		})
		first := must(b.Acquire(t.Context(), key))
		got := make(chan error)
		go func() { _, err := first.FencingToken(t.Context()); got <- err }()
		synctest.Wait() // the fetch of the first turn hangs
		var second *guard.Lease
		go func() { second = must(b.Acquire(t.Context(), key)) }()
		synctest.Wait()
		_ = first.Release(t.Context())
		synctest.Wait()
		tokens := make(chan uint64)
		go func() { tokens <- must(second.FencingToken(t.Context())) }()
		synctest.Wait()
		close(late)
		wantErr(t, <-got, guard.ErrLeaseLost)
		token := <-tokens
		if again := must(second.FencingToken(t.Context())); again != token || b.spy.fences.Load() != 2 {
			t.Errorf("tokens %d and %d after %d fetches", token, again, b.spy.fences.Load())
		}
		_ = second.Release(t.Context())
	})
}

func TestFencingToken_AFetchThatFindsAnotherOwnerLosesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			b.mem.Lose(key)
			_, err := guard.FencingToken(ctx)
			if !errors.Is(err, guard.ErrLeaseLost) || !errors.Is(context.Cause(ctx), guard.ErrLeaseLost) {
				t.Errorf("got %v, context %v", err, context.Cause(ctx))
			}
			return err
		})
		wantErr(t, err, guard.ErrLeaseLost)
	})
}

// A lease is as good as before when a token cannot be had, as from a counter of
// another type or a store that hangs.
func TestFencingToken_AFetchThatFailsCostsNoLease(t *testing.T) {
	for name, takes := range map[string]time.Duration{"refused": 0, "hangs": 500 * time.Millisecond} { // the try limit
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.spy.set(func(s *spy) {
					s.fence = func(ctx context.Context, _ func() (uint64, error)) (uint64, error) {
						if takes > 0 {
							<-ctx.Done()
						}
						return 0, guard.ErrUnavailable
					}
				})
				l := must(b.Acquire(t.Context(), key))
				start := time.Now()
				_, err := l.FencingToken(t.Context())
				wantErr(t, err, guard.ErrUnavailable)
				if d := time.Since(start); d != takes || errors.Is(err, guard.ErrLeaseLost) || l.Err() != nil {
					t.Errorf("%v after %v, and the lease has %v, want %v and nil", err, d, l.Err(), takes)
				}
				b.spy.set(func(s *spy) { s.fence = nil })
				if _, err := l.FencingToken(t.Context()); err != nil {
					t.Errorf("the next fetch: %v", err)
				}
				wantErr(t, l.Release(t.Context()), nil)
			})
		})
	}
}
