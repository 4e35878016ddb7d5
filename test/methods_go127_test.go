//go:build go1.27

package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestGenericMethods_AreTheFunctions(t *testing.T) {
	g := testguard.New(t, memlocker.New())
	runs := 0
	next := func(ctx context.Context) (int, error) {
		if _, held := guard.LeaseOf(ctx, "k"); !held {
			t.Error("no lease")
		}
		runs++
		return runs, nil
	}
	for want := 1; want <= 2; want++ {
		if n, err := g.Call(t.Context(), "k", next); n != want || err != nil {
			t.Errorf("Call: %d, %v", n, err)
		}
	}
	for range 2 {
		if n, err := g.Once(t.Context(), "k", time.Minute, next); n != 3 || err != nil {
			t.Errorf("Once: %d, %v", n, err)
		}
	}
}
