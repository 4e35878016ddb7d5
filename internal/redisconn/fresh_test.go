package redisconn

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
)

func TestANodesPoolIsDoubtedAfterSeveralTimeoutsInARow(t *testing.T) {
	// outside: it may start goroutines
	pool, made := redis.NewClient(&redis.Options{}), redis.NewClient(&redis.Options{})
	defer func() { _, _ = pool.Close(), made.Close() }()
	synctest.Test(t, func(t *testing.T) {
		f := &fresh{silent: make(map[string]silence), client: func() redis.UniversalClient { return made }}
		isFresh := func(node string, want bool) {
			t.Helper()
			if got := f.way(node, pool) == redis.UniversalClient(made); got != want {
				t.Errorf("after %d in a row: fresh %t, want %t", f.silent[node].row, got, want)
			}
		}
		send := func(takes time.Duration, unanswered bool) {
			sent := time.Now()
			time.Sleep(takes)
			f.note("node", sent, unanswered)
		}

		send(time.Second, true)
		isFresh("node", false)
		f.note("node", time.Now().Add(-time.Second), true) // was under way when the first was given up: the same pause
		isFresh("node", false)
		send(time.Millisecond, false)
		send(time.Second, true)
		isFresh("node", false) // an answer came between the two

		send(time.Second, true)
		isFresh("node", true)
		isFresh("node", true) // the same client for all
		isFresh("another", false)
		send(time.Millisecond, false)
		isFresh("node", true) // the answer came over the fresh way, and says nothing of the pool
		time.Sleep(doubted)
		isFresh("node", false)
	})
}

// All connections of a pool die without a word. Renewals do not try each of
// them.
func TestRenewalsLeaveAPoolWhoseConnectionsHaveDied(t *testing.T) {
	server := redistest.NewProxy(t, redistest.Start(t).Addr)
	node := redistest.NewProxy(t, redistest.StartCluster(t)[0].Addr)
	for name, c := range map[string]struct {
		proxy  *redistest.Proxy
		client redis.UniversalClient
	}{
		"server": {server, redis.NewClient(&redis.Options{Addr: server.Addr})},
		"cluster": {node, redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{node.Addr},
			Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, node.Addr)
			},
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: node.Addr}}}}, nil
			},
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { _ = c.client.Close() })
			conns := New(&Settings{Client: c.client})
			t.Cleanup(conns.Close)
			renew := func(within time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				cmd := redis.NewCmd(ctx, "ping")
				conns.SendRenewals(ctx, "node", []Answerable{cmd})
				return cmd.Err()
			}
			c.proxy.DelayReplies(50 * time.Millisecond) // so that many connections are needed
			var wg sync.WaitGroup
			for range 10 * doubtful {
				wg.Go(func() { _ = renew(10 * time.Second) })
			}
			wg.Wait()
			c.proxy.DelayReplies(0)
			c.proxy.SilenceAll()
			for range doubtful {
				if renew(100*time.Millisecond) == nil {
					t.Fatal("a dead connection answers")
				}
			}
			if err := renew(10 * time.Second); err != nil {
				t.Errorf("the next renewal: %v, want it to have a new connection", err)
			}
		})
	}
}
