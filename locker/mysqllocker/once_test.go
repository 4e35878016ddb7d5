package mysqllocker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

// A busy machine may not confirm half a megabyte within a second. The result is
// not recorded then, and the test begins anew.
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
	for round := 0; !oneResult(t, gs, fmt.Sprint("k", round)); round++ {
		if round == 5 {
			t.Fatal("no result was recorded")
		}
	}
}

// oneResult calls Once for one key from both guards at once. oneResult returns
// false if the server did not confirm the record.
func oneResult(t *testing.T, gs []*guard.Guard, key string) (recorded bool) {
	t.Helper()
	long := strings.Repeat("r", locker.MaxRecord/2)
	var runs, unconfirmed atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			got, err := guard.Once(t.Context(), gs[i%2], key, time.Hour, func(context.Context) (string, error) {
				runs.Add(1)
				return long, nil
			})
			switch {
			case errors.Is(err, guard.ErrNotRecorded):
				unconfirmed.Add(1)
			case err != nil || got != long:
				t.Errorf("%d bytes, %v, want the first result", len(got), err)
			}
		})
	}
	all.Wait()
	if n := runs.Load(); n != 1+unconfirmed.Load() {
		t.Errorf("%d runs, and %d of them did not record their result", n, unconfirmed.Load())
	}
	return unconfirmed.Load() == 0
}
