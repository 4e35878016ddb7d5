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
