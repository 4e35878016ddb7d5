package guard_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// A first call has two round trips, and a replay has one, however long the
// result is.
func TestOnceOnRedisHasTwoRoundTripsAndThenOne(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	g := onRedis(t, p.Addr)
	once := func(key, want string) {
		t.Helper()
		fn := func(context.Context) (string, error) { return want, nil }
		got, err := guard.Once(t.Context(), g, key, time.Hour, fn)
		if got != want || err != nil {
			t.Fatalf("%d bytes, %v, want %d", len(got), err, len(want))
		}
	}
	once("warm", "up") // connects, and loads the scripts
	once("warm", "up")
	for key, size := range map[string]int{"short": 40, "long": 60 << 10} {
		for _, trips := range []int{2, 1, 1} {
			p.Reset()
			once(key, strings.Repeat("x", size))
			if n := p.RoundTrips(); n != trips {
				t.Errorf("a result of %d bytes: %d round trips, want %d", size, n, trips)
			}
		}
	}
	rdb := redistest.Client(t, s.Addr)
	for _, name := range rdb.Keys(t.Context(), "*").Val() {
		if ttl := rdb.TTL(t.Context(), name).Val(); !strings.HasSuffix(name, ":kept") || ttl <= 0 {
			t.Errorf("%s is left, for %v", name, ttl)
		}
	}
}

func TestOnceOnRedisAnswersAllWhoWait(t *testing.T) {
	addr := redistest.Start(t).Addr
	for key, size := range map[string]int{"short": 40, "long": 20 << 10} {
		var runs atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			g := onRedis(t, addr, guard.WithMaxWait(time.Minute))
			for range 25 {
				wg.Go(func() {
					v, err := guard.Once(t.Context(), g, key, time.Hour, func(context.Context) (string, error) {
						time.Sleep(50 * time.Millisecond)
						runs.Add(1)
						return strings.Repeat("x", size), nil
					})
					if len(v) != size || err != nil {
						t.Errorf("%d bytes, %v, want %d", len(v), err, size)
					}
				})
			}
		}
		wg.Wait()
		if n := runs.Load(); n != 1 {
			t.Errorf("a result of %d bytes: fn ran %d times", size, n)
		}
	}
}
