package guard_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Servers that are far away, in virtual time. A try has 500 ms, and a new
// connection takes longer than that. Row 41 of docs/faults.md promises the
// first turn of a new process within 3 s.
func TestDo_FarServersGiveTheirKeys(t *testing.T) {
	for name, d := range map[string]redistest.Distance{
		"100 ms, TLS": {RoundTrip: 100 * time.Millisecond, Opening: 3}, // the first answer comes as a try ends
		"120 ms, TLS": {RoundTrip: 120 * time.Millisecond, Opening: 3}, // and here the first connection
		"250 ms, TLS": {RoundTrip: 250 * time.Millisecond, Opening: 3}, // two round trips fill a try
		"250 ms, behind a near end of TCP, as of a tunnel": {RoundTrip: 250 * time.Millisecond},
		"400 ms, TLS": {RoundTrip: 400 * time.Millisecond, Opening: 3},
	} {
		for where, client := range map[string]func(o *redis.Options) redis.UniversalClient{
			"server":  func(o *redis.Options) redis.UniversalClient { return redis.NewClient(o) },
			"cluster": clusterOfOne,
		} {
			t.Run(name+"/"+where+"/free", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { farAndFree(t, d, client) })
			})
			t.Run(name+"/"+where+"/hot", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { farAndHot(t, d, client) })
			})
		}
	}
}

// clusterOfOne returns a client that takes the server for a cluster.
func clusterOfOne(o *redis.Options) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Dialer: o.Dialer,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: o.Addr}}}}, nil
		},
	})
}

// farGuard returns a guard on a server in memory that is far away, and the
// options of clients that are near it.
func farGuard(t *testing.T, d redistest.Distance, client func(o *redis.Options) redis.UniversalClient) (
	far *guard.Guard, near *redis.Options,
) {
	t.Helper()
	_, near = redistest.InMemory(t.Cleanup)
	o := *near
	o.Dialer = d.Over(near.Dialer)
	return guardOver(t, client(&o), guard.WithMaxWait(8*time.Second)), near
}

// guardOver returns a guard that is closed when t ends, and rdb with it.
func guardOver(t *testing.T, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g := must(guard.New(redislocker.New(rdb), opts...))
	t.Cleanup(func() {
		_, _ = g.Close(context.WithoutCancel(t.Context())), rdb.Close()
		time.Sleep(time.Second) // go-redis may be about to learn the nodes of a cluster
	})
	return g
}

// farAndFree holds several keys at once, twice. They are released together, and
// none is left to its TTL.
func farAndFree(t *testing.T, d redistest.Distance, client func(o *redis.Options) redis.UniversalClient) {
	t.Helper()
	g, near := farGuard(t, d, client)
	for round, limit := range []time.Duration{3 * time.Second, 2 * time.Second} {
		var all, in sync.WaitGroup
		for i := range 8 {
			in.Add(1)
			all.Go(func() {
				arrive := sync.OnceFunc(in.Done)
				defer arrive() // without a turn, too
				start := time.Now()
				if err := g.Do(t.Context(), strconv.Itoa(i), func(context.Context) error {
					if took := time.Since(start); took > limit {
						t.Errorf("round %d: a turn after %v, want %v at most", round, took, limit)
					}
					arrive()
					in.Wait()
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	rdb := redis.NewClient(near)
	defer func() { _ = rdb.Close() }()
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if strings.HasSuffix(key, "}") {
			t.Errorf("%s was not released", key)
		}
	}
}

// farAndHot takes its turn on a key that two near processes want all the time.
func farAndHot(t *testing.T, d redistest.Distance, client func(o *redis.Options) redis.UniversalClient) {
	t.Helper()
	g, near := farGuard(t, d, client)
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for range 2 {
		g := guardOver(t, client(near))
		busy.Go(func() { // ends with stop
			for ctx.Err() == nil {
				_ = g.Do(ctx, "hot", func(context.Context) error { time.Sleep(50 * time.Millisecond); return nil })
			}
		})
	}
	time.Sleep(time.Second) // until they are at it
	for round := range 3 {
		start := time.Now()
		if err := g.Do(t.Context(), "hot", nop); err != nil || time.Since(start) > 5*time.Second {
			t.Errorf("round %d: %v after %v, want a turn within 5 s", round, err, time.Since(start))
		}
	}
	stop()
	busy.Wait()
}
