package mysqllocker_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

func TestCallersOfTwoLockersGetOneResult(t *testing.T) {
	name := newTable(t, open(t))
	var gs []*guard.Guard
	for range 2 {
		g, err := guard.New(mysqllocker.New(open(t), name), guard.WithMaxWait(time.Minute), guard.WithTTL(time.Minute),
			guard.WithResultLimit(locker.MaxRecord))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		gs = append(gs, g)
	}
	long := strings.Repeat("r", locker.MaxRecord/2)
	var runs atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			got, err := guard.Once(t.Context(), gs[i%2], "k", time.Hour, func(context.Context) (string, error) {
				runs.Add(1)
				return long, nil
			})
			if err != nil || got != long {
				t.Errorf("%d bytes, %v, want the first result", len(got), err)
			}
		})
	}
	all.Wait()
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}
