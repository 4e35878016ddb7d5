package guard_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// A balancer or NAT forgets the connections of a process that has asked for
// nothing for a while. A call with one attempt is not refused because of that.
func TestTryDo_OutlivesConnectionsThatWereForgotten(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, opt := range map[string]guard.Option{
		"alone":              guard.WithMaxHold(0),
		"a permit":           guard.WithPermits(3),
		"with tokens":        guard.WithFencing(),
		"a key that lingers": guard.WithLinger(time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, redistest.Start(t).Addr)
			g := must(guard.New(redislocker.New(redistest.Client(t, p.Addr)), opt, guard.WithMaxWait(0)))
			t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
			testguard.OutlivesForgottenConnections(t, p.SilenceAll, func(key string) error {
				ran, err := g.TryDo(t.Context(), key, nop)
				if !ran && err == nil {
					err = guard.ErrNotAcquired
				}
				return err
			})
		})
	}
}

// The answers to calls that wait tell as much of a connection. On a busy
// machine some calls are refused.
func TestTryDo_OutlivesConnectionsThatOnlyDoHasUsed(t *testing.T) {
	t.Parallel() // it mostly waits
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	for refused := 0; ; refused++ {
		g := must(guard.New(redislocker.New(redistest.Client(t, p.Addr))))
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		if err := g.Do(t.Context(), "warm", nop); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1200 * time.Millisecond) // longer than a connection is known to be well
		p.SilenceAll()
		ran, err := g.TryDo(t.Context(), "k", nop)
		if ran && err == nil {
			return
		}
		if refused == 10 {
			t.Fatalf("ran %v, %v, as 10 calls before it", ran, err)
		}
	}
}

// A server that is far away answers late. That is no reason to leave its
// connections.
func TestTryDo_AsksAServerThatIsFarAway(t *testing.T) {
	t.Parallel() // it mostly waits
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	p.Far(redistest.Distance{RoundTrip: 300 * time.Millisecond})
	g := must(guard.New(redislocker.New(redistest.Client(t, p.Addr))))
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	for range 2 {
		_ = g.Do(t.Context(), "warm", nop)
	}
	// If its connections were left, each call would be refused. On a busy
	// machine some are.
	for ran, n := 0, 0; ran < 3; n++ {
		if n == 20 {
			t.Fatalf("%d of %d calls ran", ran, n)
		}
		if did, err := g.TryDo(t.Context(), fmt.Sprint("k", n), nop); did && err == nil {
			ran++
		}
		time.Sleep(1200 * time.Millisecond) // longer than a connection is known to be well
	}
}

// The request after the probe has all the time that is left, because a new
// connection needs some round trips. If it had less, each call would be
// refused. On a busy machine some are.
func TestTryDo_OutlivesConnectionsToAFarServerThatWereForgotten(t *testing.T) {
	t.Parallel() // it mostly waits
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	p.Far(redistest.Distance{RoundTrip: 70 * time.Millisecond})
	g := must(guard.New(redislocker.New(redistest.Client(t, p.Addr))))
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	for range 3 {
		_, _ = g.TryDo(t.Context(), "warm", nop)
	}
	for refused := 0; ; refused++ {
		time.Sleep(1200 * time.Millisecond) // longer than a connection is known to be well
		p.SilenceAll()
		ran, err := g.TryDo(t.Context(), "k", nop)
		if ran && err == nil {
			return
		}
		if refused == 20 {
			t.Fatalf("ran %v, %v, as 20 calls before it", ran, err)
		}
		_, _ = g.TryDo(t.Context(), "warm", nop)
	}
}

// The answers of one node of a cluster say nothing of the connections to
// others.
func TestTryDo_OutlivesConnectionsToANodeThatWereForgotten(t *testing.T) {
	t.Parallel() // it mostly waits
	var nodes []*redistest.Proxy
	var slots []redis.ClusterSlot
	for i := range 2 { // servers that take all keys
		p := redistest.NewProxy(t, redistest.Start(t).Addr)
		nodes = append(nodes, p)
		slots = append(slots, redis.ClusterSlot{
			Start: i * 8192, End: i*8192 + 8191, Nodes: []redis.ClusterNode{{Addr: p.Addr}},
		})
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
	})
	t.Cleanup(func() { _ = rdb.Close() })
	g := must(guard.New(redislocker.New(rdb)))
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	first := redistest.Client(t, nodes[0].Addr)
	keys := make([]string, len(nodes)) // one of each node
	for i := 0; slices.Contains(keys, ""); i++ {
		key := strconv.Itoa(i)
		_ = g.Do(t.Context(), key, func(ctx context.Context) error {
			keys[1-first.Exists(ctx, "guard:{"+key+"}").Val()] = key
			return nil
		})
	}
	try := func(node int) (ran bool, err error) { return g.TryDo(t.Context(), keys[node], nop) }
	// If the answers of the first node counted for the second, each call would
	// be refused. On a busy machine some are.
	for refused := 0; ; refused++ {
		for ran, n := false, 0; !ran && n < 10; n++ {
			ran, _ = try(1)
		}
		for start := time.Now(); time.Since(start) < 1300*time.Millisecond; time.Sleep(100 * time.Millisecond) {
			_, _ = try(0)
		}
		nodes[1].SilenceAll()
		ran, err := try(1)
		if ran && err == nil {
			return
		}
		if refused == 20 {
			t.Fatalf("ran %v, %v, as 20 calls before it", ran, err)
		}
	}
}
