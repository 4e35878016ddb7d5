package timelimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/timelimit"
)

func TestALimitEndsInTimeWhateverBecomesOfItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timelimit.New()
		for d := time.Millisecond; d < 100*time.Millisecond; d += 3 * time.Millisecond {
			parent, cancel := context.WithCancel(t.Context())
			start := time.Now()
			ctx := w.Within(parent, d)
			cancel()
			<-ctx.Done()
			if took := time.Since(start); took > d || took < d-5*time.Millisecond {
				t.Errorf("a limit of %v ended after %v", d, took)
			}
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("ended with %v", ctx.Err())
			}
		}
	})
}

func TestALongLimitIsAtMostATwentiethShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timelimit.New()
		for d := 990 * time.Millisecond; d < 2*time.Second; d += 7 * time.Millisecond {
			start := time.Now()
			<-w.Within(t.Context(), d).Done()
			if took := time.Since(start); took > d || took < d-d/20 {
				t.Errorf("a limit of %v ended after %v", d, took)
			}
		}
	})
}

func TestLongLimitsOf50msShareATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ends := timelimit.New(), map[<-chan struct{}]bool{}
		for range 50 {
			ends[w.Within(t.Context(), time.Second).Done()] = true
			time.Sleep(time.Millisecond)
		}
		if len(ends) > 2 {
			t.Errorf("they have %d timers, want 2", len(ends))
		}
	})
}

func TestALimitThatHasNotEndedHasNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timelimit.New()
		ctx := w.Within(t.Context(), time.Second)
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Second || ctx.Err() != nil {
			t.Errorf("deadline %v, %t, error %v", at, ok, ctx.Err())
		}
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		<-child.Done()
		if !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("a context made of it ended with %v", child.Err())
		}
	})
}

func TestLimitsShareTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timelimit.New()
		a, b := w.Within(t.Context(), time.Second), w.Within(t.Context(), time.Second)
		if a.Done() != b.Done() {
			t.Error("two limits that end together have a timer each")
		}
	})
}
