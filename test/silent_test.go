package guard_test

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// outlivesSilence fills the pool by a crowd of calls and acquires leases. Then
// it lets all connections die without a word, and waits for three TTLs.
func outlivesSilence(t *testing.T, rdb redis.UniversalClient, slow func(time.Duration), silence func()) {
	t.Helper()
	const ttl = 6 * time.Second // long enough for new connections on a busy machine
	g := must(guard.New(redislocker.New(rdb), guard.WithTTL(ttl), guard.WithMaxHold(0),
		guard.WithLogger(slog.New(slog.DiscardHandler))))
	// go-redis 9.19 may wait for a read on a silent connection until that
	// connection ends with the proxy.
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_ = g.Close(ctx)
	})
	slow(50 * time.Millisecond) // so that the crowd needs many connections
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() { _ = g.Do(t.Context(), "crowd:"+strconv.Itoa(i), nop) })
	}
	wg.Wait()
	slow(0)
	leases := map[string]*guard.Lease{}
	for i := range 60 {
		k := "silent:" + strconv.Itoa(i)
		leases[k] = must(g.Acquire(t.Context(), k))
	}
	silence()
	time.Sleep(3 * ttl) // the leases must live through this time
	for k, l := range leases {
		if err := l.Err(); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		wg.Go(func() { _ = l.Release(t.Context()) })
	}
	wg.Wait()
}

func TestDo_LeasesOutliveConnectionsThatDieSilently(t *testing.T) {
	t.Parallel() // it mostly waits
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	outlivesSilence(t, redistest.Client(t, p.Addr), p.DelayReplies, p.SilenceAll)
}

func TestDo_LeasesOutliveConnectionsThatDieSilentlyInACluster(t *testing.T) {
	t.Parallel() // it mostly waits
	proxies := map[string]*redistest.Proxy{}
	var addrs []string
	for _, n := range redistest.StartCluster(t) {
		proxies[n.Addr] = redistest.NewProxy(t, n.Addr)
		addrs = append(addrs, n.Addr)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, proxies[addr].Addr)
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	slow := func(d time.Duration) {
		for _, p := range proxies {
			p.DelayReplies(d)
		}
	}
	outlivesSilence(t, rdb, slow, func() {
		for _, p := range proxies {
			p.SilenceAll()
		}
	})
}

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
			var wg sync.WaitGroup
			for i := range 8 { // connections
				wg.Go(func() { _, _ = g.TryDo(t.Context(), strconv.Itoa(i), nop) })
			}
			wg.Wait()
			for range 2 {
				time.Sleep(1200 * time.Millisecond) // longer than a connection is known to be well
				p.SilenceAll()
				if ran, err := g.TryDo(t.Context(), "k", nop); !ran || err != nil {
					t.Errorf("ran %v, %v", ran, err)
				}
			}
		})
	}
}
