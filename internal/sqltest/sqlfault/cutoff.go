package sqlfault

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// CutOff checks that holders that are cut off stop before the next ones begin.
// cut is the locker of the holders. hang leaves its requests without an answer
// until mend, and no others.
func CutOff(t *testing.T, cut, others locker.Locker, hang func() (mend func())) {
	t.Helper()
	const holders, ttl, patience = 20, 2 * time.Second, time.Minute
	holding, err := guard.New(cut, guard.WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := guard.New(others, guard.WithTTL(ttl), guard.WithMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	var all sync.WaitGroup
	for i := range holders {
		key := "k" + strconv.Itoa(i)
		l, err := holding.Acquire(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			<-l.Context().Done()
			if err := context.Cause(l.Context()); !errors.Is(err, guard.ErrLeaseLost) {
				t.Errorf("%s ended by %v, want ErrLeaseLost", key, err)
			}
			_ = l.Release(ctx) // it was lost
		})
		all.Go(func() {
			if err := waiting.Do(ctx, key, func(context.Context) error {
				if l.Context().Err() == nil {
					t.Errorf("the next of %s begins while the holder that was cut off works", key)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	mend := hang()
	all.Wait()
	mend()
	for _, g := range []*guard.Guard{holding, waiting} {
		ending, cancel := context.WithTimeout(ctx, patience)
		if err := g.Close(ending); err != nil {
			t.Error(err)
		}
		cancel()
	}
}
