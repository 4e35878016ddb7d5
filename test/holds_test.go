package guard_test

import (
	"context"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestAcquire_ALeaseTellsWhatItHoldsInItsStore(t *testing.T) {
	store, other := memlocker.New(), memlocker.New()
	g, err := guard.New(store)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.WithoutCancel(t.Context()))
	outer, err := guard.New(other)
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close(context.WithoutCancel(t.Context()))

	var leaked *guard.Lease
	err = outer.Do(t.Context(), "a", func(ctx context.Context) error {
		return g.DoAll(ctx, []string{"b", "c"}, func(ctx context.Context) error {
			l, _ := guard.LeaseFrom(ctx)
			leaked = l
			holds, ok := l.Holds(store)
			if !ok || len(holds) != 2 || holds[0].Owner == holds[1].Owner {
				t.Errorf("in the guard's own store: %v, %v, want two keys", holds, ok)
			}
			for _, h := range holds {
				if s, err := store.Inspect(ctx, h.Key); err != nil || s.Owner != h.Owner {
					t.Errorf("%+v: the store has %+v, %v", h, s, err)
				}
			}
			if holds, ok := l.Holds(other); !ok || len(holds) != 1 || holds[0].Key != "a" {
				t.Errorf("in the store of the lease around it: %v, %v", holds, ok)
			}
			if holds, ok := l.Holds(memlocker.New()); ok {
				t.Errorf("in a third store: %v", holds)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	if holds, ok := leaked.Holds(store); ok {
		t.Errorf("after the release: %v", holds)
	}
}
