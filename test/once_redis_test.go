package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// A first call has two round trips, and a replay has one, however long the
// result is. A process whose last record of the key has gone asks once more. A
// busy machine can add some, so the least of several calls counts.
func TestOnce_OnRedisHasTwoRoundTripsAndThenOne(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	g, other := onRedis(t, p.Addr, guard.WithMaxWait(time.Minute)), onRedis(t, p.Addr, guard.WithMaxWait(time.Minute))
	trips := func(g *guard.Guard, key, want string) int {
		t.Helper()
		p.Reset()
		fn := func(context.Context) (string, error) { return want, nil }
		got, err := guard.Once(t.Context(), g, key, time.Hour, fn)
		if got != want || err != nil && !errors.Is(err, guard.ErrNotRecorded) {
			t.Fatalf("%d bytes, %v, want %d", len(got), err, len(want))
		}
		return p.RoundTrips()
	}
	for _, size := range []int{40, 60 << 10} {
		first, again, elsewhere, gone := 100, 100, 100, 100
		for i := range 5 {
			key := fmt.Sprint(size, i)
			result := strings.Repeat("x", size)
			first = min(first, trips(g, key, result))
			again = min(again, trips(g, key, result))
			elsewhere = min(elsewhere, trips(other, key, result))
			if _, err := other.Forget(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			gone = min(gone, trips(g, key, result))
		}
		if first != 2 || again != 1 || elsewhere != 1 || gone > 3 {
			t.Errorf("a result of %d bytes: %d, %d, %d and %d round trips, want 2, 1, 1 and at most 3",
				size, first, again, elsewhere, gone)
		}
	}
	rdb := redistest.Client(t, s.Addr)
	for _, name := range rdb.Keys(t.Context(), "*:kept").Val() {
		if ttl := rdb.PTTL(t.Context(), name).Val(); ttl == -1 {
			t.Errorf("%s has no TTL", name)
		}
	}
}

// A process that has seen a record lately makes little to read it again. The
// least of several measurements counts, because others allocate meanwhile.
func TestOnce_AReplayOnRedisHasFewAllocations(t *testing.T) {
	g := onRedis(t, redistest.Start(t).Addr)
	replay := func() {
		_, err := g.OnceBytes(t.Context(), key, guard.OnceOptions{TTL: time.Hour},
			func(context.Context) ([]byte, error) { return []byte("receipt"), nil })
		if err != nil {
			t.Log(err) // such as an outage on a busy machine
		}
	}
	replay()
	least := 1000.0
	for range 10 {
		least = min(least, testing.AllocsPerRun(20, replay))
	}
	if least > 25 {
		t.Errorf("a replay has %v allocations, want at most 25", least)
	}
}
