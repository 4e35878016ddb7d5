package redislocker_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// Its parts share one cluster.
func TestCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	nodes := redistest.StartCluster(t)
	client := func(t *testing.T) *redis.ClusterClient {
		t.Helper()
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	flush := func(t *testing.T) {
		t.Helper()
		for _, n := range nodes {
			if err := redistest.Client(t, n.Addr).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("scripts are unknown on each node", func(t *testing.T) {
		flush(t)
		l := open(t, client(t))
		var cs []*locker.Claim
		for i := range 50 {
			cs = append(cs, fenced(strconv.Itoa(i)))
			mustAcquire(t, l, cs[i])
		}
		for _, n := range nodes {
			redistest.Client(t, n.Addr).ScriptFlush(t.Context())
		}
		if err := errors.Join(renew(t.Context(), t, l, cs...)...); err != nil {
			t.Error(err)
		}
		for _, c := range cs {
			mustRelease(t, l, c)
		}
	})
	t.Run("no claim rests, where nobody knows whom a message reaches", func(t *testing.T) {
		flush(t)
		ls, _ := listening(t, client(t), 1)
		c := claim("k")
		mustAcquire(t, open(t, client(t)), claim("k"))
		queue(t, ls[0], c)
		if got := restOf(t, ls[0], c); got != 0 {
			t.Errorf("a rest of %v", got)
		}
	})
	t.Run("a plain client is refused", func(t *testing.T) {
		l := open(t, redistest.Client(t, nodes[0].Addr))
		var refused error
		for i := 0; refused == nil && i < 100; i++ { // until a key is another node's
			_, refused = l.Acquire(t.Context(), claim("secret"+strconv.Itoa(i)), locker.Try{})
		}
		expectRefusal(t, refused, claim("secret"), "ClusterClient")
	})
	t.Run("a lost release is not taken for a lost lease", func(t *testing.T) {
		p := redistest.NewProxy(t, nodes[0].Addr)
		flush(t)
		slots := func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: p.Addr}}}}, nil
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots})
		defer func() { _ = rdb.Close() }()
		l := open(t, rdb)
		var c *locker.Claim
		for i := 0; ; i++ {
			c = claim(strconv.Itoa(i))
			if a, _ := l.Acquire(t.Context(), c, locker.Try{}); a.Acquired {
				break
			}
		}
		p.KillNextReply()
		if _, err := l.Release(t.Context(), c, locker.End{}); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
	})
}
