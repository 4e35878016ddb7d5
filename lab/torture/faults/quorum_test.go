package faults

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redlock"
)

// A lease on a bare quorum of three nodes. One of the two forgets it in a
// restart, and the third comes back. Together they would be a quorum for
// another holder if they voted at once.
func TestFault30ANodeThatForgotDoesNotVoteForAnother(t *testing.T) {
	begin(t)
	const ttl, restartDelay = 3 * time.Second, 4 * time.Second
	servers := []*redistest.Server{serve(t), serve(t), serve(t)}
	quorum := func() *guard.Guard {
		var nodes []redis.UniversalClient
		for _, s := range servers {
			nodes = append(nodes, redistest.Client(t, s.Addr))
		}
		return newGuardOn(t, redlock.New(nodes, redlock.WithRestartDelay(restartDelay)), guard.WithTTL(ttl),
			guard.WithMaxWait(long), guard.WithFencing())
	}
	a, b := quorum(), quorum()
	warm(t, a) // when the nodes have been up for long enough
	warm(t, b)

	servers[2].Kill()
	began := time.Now()
	l := acquire(t, a, key)
	first := token(t, l)
	told := make(chan time.Time, 1)
	go func() { // ends with the lease
		<-l.Context().Done()
		told <- time.Now()
	}()
	servers[0].Restart()
	servers[2].Restart()
	next := acquire(t, b, key)
	started := time.Now()
	if before := started.Sub(<-told); before <= 0 && steady(t, began) {
		t.Errorf("the next started %v before the holder was told", -before)
	}
	if n := token(t, next); n <= first {
		t.Errorf("token %d after %d", n, first)
	}
	_ = l.Release(t.Context())
	mustRelease(t, next)
	keeps(t, "on a quorum, the nodes that restarted do not vote until the lease has ended")
}
