package guard_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// A balancer or NAT forgets the connections of a process that has asked for
// nothing for a while. A call with one attempt is not refused because of that.

// started is after the moment from which package redisconn counts.
var started = time.Now()

// forgotAfter is longer than a connection is known to be well.
const forgotAfter = 1200 * time.Millisecond

// sinceStart has the clock of a bubble go on from the start of the process.
func sinceStart() { time.Sleep(time.Until(started)) }

// behindNAT returns a guard on a server in memory that is d away, behind a NAT.
func behindNAT(t *testing.T, d redistest.Distance, opts ...guard.Option) (*guard.Guard, *redistest.NAT) {
	t.Helper()
	sinceStart()
	_, o := redistest.InMemory(t.Cleanup)
	nat := new(redistest.NAT)
	o.Dialer = nat.Over(d.Over(o.Dialer))
	return guardOver(t, redis.NewClient(o), opts...), nat
}

// mustTry fails t unless TryDo runs its function.
func mustTry(t *testing.T, g *guard.Guard, key string) {
	t.Helper()
	if ran, err := g.TryDo(t.Context(), key, nop); !ran || err != nil {
		t.Errorf("TryDo of %s: ran %v, %v", key, ran, err)
	}
}

func TestTryDo_OutlivesConnectionsThatWereForgotten(t *testing.T) {
	for name, opt := range map[string]guard.Option{
		"alone":              guard.WithMaxHold(0),
		"a permit":           guard.WithPermits(3),
		"with tokens":        guard.WithFencing(),
		"a key that lingers": guard.WithLinger(time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, nat := behindNAT(t, redistest.Distance{}, opt, guard.WithMaxWait(0))
				for round := range 4 {
					var all sync.WaitGroup
					for i := range 8 { // connections
						all.Go(func() { mustTry(t, g, fmt.Sprint("warm", i)) })
					}
					all.Wait()
					time.Sleep(forgotAfter)
					nat.Forget()
					mustTry(t, g, fmt.Sprint("k", round))
				}
			})
		})
	}
}

// Renewals do not try one dead connection after the other.
func TestDo_ALeaseOutlivesConnectionsThatWereForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, nat := behindNAT(t, redistest.Distance{RoundTrip: time.Millisecond}, guard.WithMaxHold(0))
		var all sync.WaitGroup
		for i := range 20 { // connections
			all.Go(func() { mustTry(t, g, fmt.Sprint("warm", i)) })
		}
		all.Wait()
		l := must(g.Acquire(t.Context(), "k"))
		nat.Forget()
		time.Sleep(time.Minute)
		ok(t, l.Err())
		ok(t, l.Release(t.Context()))
	})
}

// The answers to calls that wait tell as much of a connection.
func TestTryDo_OutlivesConnectionsThatOnlyDoHasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, nat := behindNAT(t, redistest.Distance{})
		ok(t, g.Do(t.Context(), "warm", nop))
		time.Sleep(forgotAfter)
		nat.Forget()
		mustTry(t, g, "k")
	})
}

// A server that is far away answers late. That is no reason to leave its
// connections: each call would be refused.
func TestTryDo_AsksAServerThatIsFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := behindNAT(t, redistest.Distance{RoundTrip: 300 * time.Millisecond})
		for range 2 {
			_ = g.Do(t.Context(), "warm", nop)
		}
		for n := range 3 {
			mustTry(t, g, fmt.Sprint("k", n))
			time.Sleep(forgotAfter)
		}
	})
}

// The request after the probe has all the time that is left, because a new
// connection needs some round trips. If it had less, the call would be refused.
func TestTryDo_OutlivesConnectionsToAFarServerThatWereForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, nat := behindNAT(t, redistest.Distance{RoundTrip: 70 * time.Millisecond})
		for range 3 {
			_, _ = g.TryDo(t.Context(), "warm", nop)
		}
		time.Sleep(forgotAfter)
		nat.Forget()
		mustTry(t, g, "k")
	})
}

// The answers of one node of a cluster say nothing of the connections to
// others.
func TestTryDo_OutlivesConnectionsToANodeThatWereForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sinceStart()
		nodes, nat := map[string]redistest.Dialer{}, new(redistest.NAT)
		var slots []redis.ClusterSlot
		for i := range 2 { // servers that take all keys
			_, o := redistest.InMemory(t.Cleanup)
			addr := fmt.Sprintf("10.0.0.%d:6379", i)
			nodes[addr] = o.Dialer
			slots = append(slots, redis.ClusterSlot{
				Start: i * 8192, End: i*8192 + 8191, Nodes: []redis.ClusterNode{{Addr: addr}},
			})
		}
		nodes[slots[1].Nodes[0].Addr] = nat.Over(nodes[slots[1].Nodes[0].Addr])
		g := guardOver(t, redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return nodes[addr](ctx, network, addr)
			},
		}))
		const first, second = "2", "0" // keys of slots 5649 and 13907
		mustTry(t, g, second)
		for range 13 {
			mustTry(t, g, first)
			time.Sleep(100 * time.Millisecond)
		}
		nat.Forget()
		mustTry(t, g, second)
	})
}
