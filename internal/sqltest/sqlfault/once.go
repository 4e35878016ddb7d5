package sqlfault

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
)

// OneResult tests that callers of both guards get the result of one run. The
// guards take results of [locker.MaxRecord].
//
// A busy machine may not confirm half a megabyte within a second. The result is
// not recorded then, and the test begins anew.
func OneResult(t *testing.T, gs [2]*guard.Guard) {
	t.Helper()
	for round := 0; !oneResult(t, gs, fmt.Sprint("k", round)); round++ {
		if round == 5 {
			t.Fatal("no result was recorded")
		}
	}
}

func oneResult(t *testing.T, gs [2]*guard.Guard, key string) (recorded bool) {
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
	failed := unconfirmed.Load()
	if n := runs.Load(); n < 1 || n > 1+failed {
		t.Errorf("%d runs, and %d of them did not record their result", n, failed)
	}
	return failed == 0
}
