package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testsize"
)

// slowLink makes each renewal's answer take d.
func slowLink(b *bench, d time.Duration) {
	b.spy.set(func(s *spy) {
		s.renew = func(ctx context.Context, next func() []error) []error {
			errs := next()
			select {
			case <-time.After(d):
			case <-ctx.Done():
				for i := range errs {
					errs[i] = guard.ErrUnavailable
				}
			}
			return errs
		}
	})
}

// mixes are leases beside a long one.
var mixes = []struct {
	long, delay time.Duration
	shorts      int
	short       func() time.Duration
}{
	{10 * time.Second, 200 * time.Millisecond, 60, func() time.Duration { return time.Second }},
	{3 * time.Second, 20 * time.Millisecond, 100, func() time.Duration { return 100 * time.Millisecond }},
	{10 * time.Second, 833 * time.Millisecond, 200, anyShorter(10 * time.Second)},
	{3 * time.Second, 249 * time.Millisecond, 200, anyShorter(3 * time.Second)},
	{time.Second, 83 * time.Millisecond, 200, anyShorter(time.Second)},
	{time.Minute, 4999 * time.Millisecond, 200, anyShorter(time.Minute)},
}

func anyShorter(long time.Duration) func() time.Duration {
	return func() time.Duration {
		return 100*time.Millisecond + rand.N(long-100*time.Millisecond).Truncate(time.Millisecond)
	}
}

func TestDo_ALongLeaseOutlivesAnyMixOfShortOnesOnASlowLink(t *testing.T) {
	t.Parallel()
	for _, m := range mixes {
		t.Run(fmt.Sprintf("%v beside %d, %v late", m.long, m.shorts, m.delay), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, guard.WithMaxHold(0))
				slowLink(b, m.delay)
				long := must(b.With(guard.WithTTL(m.long)).Acquire(t.Context(), key))
				start := time.Now()
				ended, stop := context.WithTimeout(t.Context(), testsize.Pick(20*m.long, 2*m.long))
				defer stop()
				for i := range m.shorts { // a short lease comes again when it is lost
					go func() {
						for ended.Err() == nil {
							l := must(b.With(guard.WithTTL(m.short())).Acquire(t.Context(), fmt.Sprint("short", i)))
							select {
							case <-l.Context().Done():
							case <-ended.Done():
							}
							_ = l.Release(t.Context())
						}
					}()
				}
				select {
				case <-ended.Done():
				case <-long.Context().Done():
					t.Errorf("lost after %v, with %d batches sent", time.Since(start), b.spy.renewals.Load())
				}
				if err := long.Release(t.Context()); errors.Is(err, guard.ErrLeaseLost) {
					t.Error(err)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
