package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bsm/redislock"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

func TestDoAll_FreeKeysOfRedisTakeTwoRoundTrips(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	for name, opts := range map[string][]guard.Option{"plain": nil, "fencing": {guard.WithFencing()}} {
		g := onRedis(t, p.Addr, opts...)
		for n := range 2 { // connects, and loads the scripts
			if err := g.DoAll(t.Context(), manyKeys(n+1), nop); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range []int{1, 3, 16, 64} {
			p.Reset()
			if err := g.DoAll(t.Context(), manyKeys(n), nop); err != nil {
				t.Fatal(err)
			}
			if trips := p.RoundTrips(); trips != 2 {
				t.Errorf("%s, %d keys: %d round trips: %v", name, n, trips, p.Commands())
			}
		}
	}
}

func TestDoAll_SeveralKeysAndPlainRedislockExcludeEachOther(t *testing.T) {
	addr := redistest.Start(t).Addr
	g := onRedis(t, addr, guard.WithMaxWait(0))
	keys := []string{"a", "b", "c"}
	plain := redislock.New(redistest.Client(t, addr))
	lock, err := plain.Obtain(t.Context(), "guard:{b}", time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	var held *guard.HeldError
	if err := g.DoAll(t.Context(), keys, nop); !errors.As(err, &held) || held.Key != "b" {
		t.Errorf("got %v, want that b is held", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = g.DoAll(t.Context(), keys, func(ctx context.Context) error {
		for _, key := range keys {
			_, err := plain.Obtain(ctx, "guard:{"+key+"}", time.Minute, nil)
			if !errors.Is(err, redislock.ErrNotObtained) {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
