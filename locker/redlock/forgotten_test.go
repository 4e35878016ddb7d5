package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redlock"
)

// started is after the moment from which package redisconn counts.
var started = time.Now()

// A balancer forgets the connections to all servers of a process that has asked
// for nothing for a while. A call with one attempt is not refused because of
// that.
func TestOneAttemptOutlivesConnectionsThatWereForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(started))
		nat := new(redistest.NAT)
		nodes := make([]redis.UniversalClient, 3)
		for i := range nodes {
			_, o := redistest.InMemory(t.Cleanup)
			o.Dialer = nat.Over(o.Dialer)
			rdb := redis.NewClient(o)
			t.Cleanup(func() { _ = rdb.Close() })
			nodes[i] = rdb
		}
		g := testguard.New(t, redlock.New(nodes, redlock.WithRestartDelay(0)), guard.WithMaxWait(0))
		try := func(key string) {
			ran, err := g.TryDo(t.Context(), key, func(context.Context) error { return nil })
			if !ran || err != nil {
				t.Errorf("TryDo of %s: ran %v, %v", key, ran, err)
			}
		}
		for round := range 4 {
			var all sync.WaitGroup
			for i := range 8 { // connections
				all.Go(func() { try(fmt.Sprint("warm", i)) })
			}
			all.Wait()
			time.Sleep(1200 * time.Millisecond) // longer than a connection is known to be well
			nat.Forget()
			try(fmt.Sprint("k", round))
		}
	})
}
