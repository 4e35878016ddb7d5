package explore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// A run that is done again from its replay line tells the same story, with the
// same times.
func TestReplaysAreExact(t *testing.T) {
	for name, s := range map[string]func(*explore.World){
		"paying": paying(payWithDo, false), "plain": selling(sellWithDo), "nested": moving(moveNested),
		"paying once": paying(payWithOnce, true), "at most": paying(payAtMostOnce, false),
		"fenced": selling(sellFenced), "atomic": selling(sellAtomically), "carts": moving(moveAll),
		"crowd": crowd(3, guard.WithMaxWait(20*time.Second)), "goroutines": handling(actAtOnce),
		"calls of one process": queueing,
	} {
		t.Run(name, func(t *testing.T) {
			var st explore.Stats
			explore.Find(t, s, explore.Twice(), explore.Count(&st), explore.Runs(explore.Depth(200, 30)))
			t.Logf("%+v", st)
			may := 0
			if name == "calls of one process" { // told apart by goroutine.Number
				may = 1
			}
			if st.Unlike > may || st.Diverged > 0 {
				t.Errorf("%d runs were not the same again, in %d a fault did not come", st.Unlike, st.Diverged)
			}
		})
	}
}

// queueing is a scenario: the calls of a process wait for one key.
func queueing(w *explore.World) {
	for _, name := range []string{"A", "B"} {
		w.Deliver(name, func(ctx context.Context, g *guard.Guard) error {
			var calls sync.WaitGroup
			errs := make([]error, 3)
			for i := range errs {
				calls.Go(func() {
					errs[i] = g.Do(ctx, "k", func(ctx context.Context) error {
						return w.Step(ctx, fmt.Sprint("work ", i), func() error { return nil })
					})
				})
			}
			calls.Wait()
			return errors.Join(errs...)
		})
	}
}
