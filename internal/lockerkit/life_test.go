package lockerkit_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

func nothing() {}

// opened returns a Life whose Gate is open.
func opened(t *testing.T) *lockerkit.Life {
	t.Helper()
	l := lockerkit.NewLife("mystore")
	if err := l.Open(ready); err != nil {
		t.Fatal(err)
	}
	return l
}

func closed(t *testing.T, l *lockerkit.Life) {
	t.Helper()
	if err := l.Close(t.Context(), nothing, nothing); err != nil {
		t.Error(err)
	}
}

// insist insists on f in a call of l, for half a minute.
func insist(t *testing.T, l *lockerkit.Life, f func(ctx context.Context) bool) {
	t.Helper()
	if err := l.Enter(); err != nil {
		t.Fatal(err)
	}
	defer l.Leave()
	l.Go(func() { l.Insist(time.Now().Add(30*time.Second), f) })
}

func TestInsistRepeatsWithLimitsUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t)
		var limits []time.Duration
		begun := time.Now()
		l.Insist(begun.Add(time.Hour), func(ctx context.Context) bool {
			end, _ := ctx.Deadline()
			limits = append(limits, time.Until(end))
			return len(limits) == 6
		})
		const ms = time.Millisecond
		want := []time.Duration{250 * ms, 500 * ms, 1000 * ms, 2000 * ms, 2000 * ms, 2000 * ms}
		if !slices.Equal(limits, want) {
			t.Errorf("limits %v, want %v", limits, want)
		}
		if took := time.Since(begun); took < 155*ms || took > 465*ms {
			t.Errorf("pauses of %v, want 10 to 160 ms, each longer or shorter by half at most", took)
		}
		closed(t, l)
	})
}

func TestInsistGivesUpWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t)
		begun, tries := time.Now(), 0
		l.Insist(begun.Add(time.Minute), func(context.Context) bool { tries++; return false })
		if took := time.Since(begun); took < time.Minute || took > time.Minute+2*time.Second || tries < 40 {
			t.Errorf("%d tries in %v, want one a second for a minute", tries, took)
		}
		closed(t, l)
	})
}

func TestInsistEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t)
		tries := 0
		l.Insist(time.Now().Add(time.Minute), func(context.Context) bool {
			tries++
			l.Stop()
			return false
		})
		if tries != 1 {
			t.Errorf("%d tries, want none after Stop", tries)
		}
		closed(t, l)
	})
}

// Close must not wait for a pause that has become long, nor repeat without
// pauses what fails.
func TestCloseEndsOnePauseOfInsist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t)
		var tries atomic.Int32
		insist(t, l, func(context.Context) bool { return tries.Add(1) == 1000 }) // which is without pauses
		time.Sleep(10 * time.Second)
		before, begun := tries.Load(), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := l.Close(ctx, nothing, nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v, want its ctx's error", err)
		}
		if n := tries.Load() - before; n != 1 {
			t.Errorf("%d tries right after Close, want one", n)
		}
		time.Sleep(500 * time.Millisecond)
		if n := tries.Load() - before; n < 4 || n > 9 {
			t.Errorf("%d tries within 500 ms of Close, want pauses that begin with 10 ms", n)
		}
		closed(t, l)
		if took := time.Since(begun); took > 22*time.Second {
			t.Errorf("Close took %v, want the rest of half a minute", took)
		}
	})
}

func TestCloseGoesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t)
		var order []string
		l.Serve(func() {
			<-l.Context().Done()
			order = append(order, "service")
		})
		insist(t, l, func(ctx context.Context) bool {
			<-l.Closing()
			order = append(order, "call")
			return ctx.Err() == nil
		})
		leave := func() {
			if l.Context().Err() == nil {
				order = append(order, "leave")
			}
		}
		if err := l.Close(t.Context(), leave, func() { order = append(order, "end") }); err != nil {
			t.Error(err)
		}
		l.Serve(func() { t.Error("a service begins after Close") })
		synctest.Wait()
		if want := []string{"call", "leave", "service", "end"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
	})
}
