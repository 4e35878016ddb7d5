package guard_test

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
	"github.com/go-lockguard/guard/internal/redistest"
)

// A first call has two round trips, and a replay has one, however long the
// result is. A busy machine can add some, so the least of several calls counts.
func TestOnceOnRedisHasTwoRoundTripsAndThenOne(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	g := onRedis(t, p.Addr, guard.WithMaxWait(time.Minute))
	trips := func(key, want string) int {
		t.Helper()
		p.Reset()
		fn := func(context.Context) (string, error) { return want, nil }
		got, err := guard.Once(t.Context(), g, key, time.Hour, fn)
		if got != want || err != nil && !errors.Is(err, guard.ErrNotKept) {
			t.Fatalf("%d bytes, %v, want %d", len(got), err, len(want))
		}
		return p.RoundTrips()
	}
	for _, size := range []int{40, 60 << 10} {
		first, again := 100, 100
		for i := range 5 {
			key := fmt.Sprint(size, i)
			first = min(first, trips(key, strings.Repeat("x", size)))
			again = min(again, trips(key, strings.Repeat("x", size)))
		}
		if first != 2 || again != 1 {
			t.Errorf("a result of %d bytes: %d and %d round trips, want 2 and 1", size, first, again)
		}
	}
	rdb := redistest.Client(t, s.Addr)
	for _, name := range rdb.Keys(t.Context(), "*:kept").Val() {
		if ttl := rdb.TTL(t.Context(), name).Val(); ttl <= 0 {
			t.Errorf("%s has no TTL", name)
		}
	}
}

func TestOnceOnRedisAnswersAllWhoWait(t *testing.T) {
	addr := redistest.Start(t).Addr
	for key, size := range map[string]int{"short": 40, "long": 20 << 10} {
		var runs, unclear atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			g := onRedis(t, addr, guard.WithMaxWait(time.Minute), guard.WithTTL(time.Minute))
			for range 25 {
				wg.Go(func() {
					v, err := guard.Once(t.Context(), g, key, time.Hour, func(context.Context) (string, error) {
						time.Sleep(50 * time.Millisecond)
						runs.Add(1)
						return strings.Repeat("x", size), nil
					})
					switch {
					case errors.Is(err, guard.ErrNotKept): // on a busy machine
						unclear.Add(1)
					case len(v) != size || err != nil:
						t.Errorf("%d bytes, %v, want %d", len(v), err, size)
					}
				})
			}
		}
		wg.Wait()
		if n := runs.Load(); n > 1+unclear.Load() {
			t.Errorf("a result of %d bytes: fn ran %d times, %d results were not kept", size, n, unclear.Load())
		}
	}
}
