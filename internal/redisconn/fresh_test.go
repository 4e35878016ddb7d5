package redisconn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
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
