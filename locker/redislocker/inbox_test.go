package redislocker_test

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

func TestEachNewSubscriptionWakesEverybody(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	_, es := listening(t, rdb, 2)
	for range 5 {
		if err := rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		es[0].wakeAll(t)
		es[1].wakeAll(t)
	}
}

func TestDocumentedRightsKeepTheInboxThroughSilence(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ls, es := listening(t, as(t, s, documented(t)), 2)
	time.Sleep(3500 * time.Millisecond) // beyond the first ping
	a, b := claim("k"), fenced("k")
	mustAcquire(t, ls[0], a)
	queue(t, ls[1], b)
	es[0].wanted(t, "k")
	release(t, ls[0], a, nil, locker.Released{Waiting: 1, Handed: true})
	es[1].granted(t, b, 0)
	mustTry(t, ls[1], b, locker.Try{Queued: true}) // as if the message had got lost
	queue(t, ls[0], claim("k"))
	release(t, ls[1], b, fenced("k"), locker.Released{Waiting: 1, Handed: true, Queued: true})
}

// The subscription begins with the first wait. It also begins with the first
// claim that a release is to queue.
func TestAReleaseThatQueuesOpensTheInbox(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	e := newEar()
	l := openFor(t, e, rdb)
	c := claim("k")
	mustAcquire(t, l, c)
	if n := len(rdb.PubSubChannels(t.Context(), "guard:inbox:*").Val()); n != 0 {
		t.Errorf("%d inboxes before anybody waits", n)
	}
	release(t, l, c, claim("k"), locker.Released{})
	e.wakeAll(t)
}
