package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// slowPhases are functions of eight calls that wait for each other. Each makes
// turns slow for a while.
var slowPhases = map[string]func(ctx context.Context, b *bench) error{
	"functions that run into MaxHold": func(ctx context.Context, _ *bench) error { <-ctx.Done(); return nil },
	"slow functions":                  func(context.Context, *bench) error { time.Sleep(4 * time.Second); return nil },
	"renewals that fail": func(ctx context.Context, b *bench) error {
		mend := b.mem.Break()
		<-ctx.Done()
		mend()
		return nil
	},
}

// afterSlowPhases runs load after each slow phase. A lease that leaks begins
// the phase. afterSlowPhases reports each refusal, and returns after a minute
// or so.
func afterSlowPhases(t *testing.T, load func(t *testing.T, b *bench, refused func(error))) {
	t.Helper()
	for name, slow := range slowPhases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, guard.WithMaxHold(5*time.Second))
				patient := b.With(guard.WithMaxWait(10 * time.Minute))
				leaked := must(b.Acquire(t.Context(), key)) // keeps the gate and its pace
				defer func() { _ = leaked.Release(t.Context()) }()
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						_ = patient.Do(t.Context(), key, func(ctx context.Context) error { return slow(ctx, b) })
					})
				}
				wg.Wait()

				const maxWait = 3 * time.Second
				over := time.Now()
				var refusals, late atomic.Int64
				load(t, b, func(err error) {
					if errors.Is(err, guard.ErrQueueFull) {
						refusals.Add(1)
						if time.Since(over) > 2*maxWait {
							late.Add(1)
						}
					}
				})
				if late.Load() > 0 {
					t.Errorf("%d of %d refusals came later than 2 x MaxWait after it", late.Load(), refusals.Load())
				}
			})
		})
	}
}

func quick(context.Context) error { time.Sleep(rand.N(20 * time.Millisecond)); return nil }

func TestDo_RefusalsEndAfterASlowPhaseAtATenthOfTheLoad(t *testing.T) {
	t.Parallel()
	afterSlowPhases(t, func(t *testing.T, b *bench, refused func(error)) {
		t.Helper()
		var wg sync.WaitGroup
		for range 600 {
			time.Sleep(rand.N(200 * time.Millisecond))
			wg.Go(func() { refused(b.Do(t.Context(), key, quick)) })
		}
		wg.Wait()
	})
}

func TestDo_RefusalsEndAfterASlowPhaseInAClosedLoop(t *testing.T) {
	t.Parallel()
	afterSlowPhases(t, func(t *testing.T, b *bench, refused func(error)) {
		t.Helper()
		var wg sync.WaitGroup
		end := time.Now().Add(time.Minute)
		for range 10 {
			wg.Go(func() {
				for time.Now().Before(end) {
					if err := b.Do(t.Context(), key, quick); err != nil {
						refused(err)
						time.Sleep(10 * time.Millisecond)
					}
					time.Sleep(rand.N(time.Millisecond))
				}
			})
		}
		wg.Wait()
	})
}
