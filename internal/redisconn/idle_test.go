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

func TestConnectionsAreDoubtedAfterSeveralRenewalsInARowWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s liveness
		send := func(what string, takes time.Duration, unanswered, doubted bool) {
			t.Helper()
			sent := time.Now()
			time.Sleep(takes)
			before := s.left.Load()
			s.renewed(sent, unanswered)
			if left := s.left.Load(); (left != before) != doubted || doubted && left != int64(sent.Sub(begun)) {
				t.Errorf("%s: connections are left that were silent since %v, want %v: %v",
					what, begun.Add(time.Duration(left)), sent, doubted)
			}
		}
		send("the first", time.Second, true, false)
		s.renewed(time.Now().Add(-time.Second/2), true) // under way when the first was given up: the same pause
		send("an answer", time.Millisecond, false, false)
		send("one after an answer", time.Second, true, false)
		send("the second", time.Second, true, true)
		send("the third", time.Second, true, true)
		send("an answer", time.Millisecond, false, false)
		send("one after that", time.Second, true, false)
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
				conns.SendRenewals(ctx, conns.Node("k"), []Answerable{cmd})
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
