package redislocker_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// twoNodes starts two servers that a cluster client takes for a cluster. It
// only matters which server answers for which key.
func twoNodes(t *testing.T) (a, b *redistest.Server, rdb *redis.ClusterClient) {
	t.Helper()
	a, b = redistest.Start(t), redistest.Start(t)
	slots := func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{
			{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: a.Addr}}},
			{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: b.Addr}}},
		}, nil
	}
	rdb = redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots})
	t.Cleanup(func() { _ = rdb.Close() })
	return a, b, rdb
}

// acquireOnBoth acquires at least n claims on each node.
func acquireOnBoth(t *testing.T, l *redislocker.Locker, a *redistest.Server, n int) (onA, onB []*locker.Claim) {
	t.Helper()
	rdb := redistest.Client(t, a.Addr)
	for i := 0; len(onA) < n || len(onB) < n; i++ {
		c := claim(strconv.Itoa(i))
		mustAcquire(t, l, c)
		if rdb.Exists(t.Context(), lock(c.Key)).Val() == 1 {
			onA = append(onA, c)
		} else {
			onB = append(onB, c)
		}
	}
	return onA, onB
}

func TestRenewAnswersForANodeThatIsWellBeforeOneThatHangs(t *testing.T) {
	t.Parallel()
	a, b, rdb := twoNodes(t)
	l := open(t, rdb)
	onA, onB := acquireOnBoth(t, l, a, 5)
	cs := append(append([]*locker.Claim{}, onB...), onA...)
	type answer struct {
		i   int
		err error
	}
	answers, done := make(chan answer, len(cs)), make(chan struct{})
	b.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(done)
		l.Renew(ctx, cs, func(i int, err error) { answers <- answer{i, err} })
	}()
	for range onA {
		select {
		case got := <-answers:
			if got.i < len(onB) || got.err != nil {
				t.Errorf("claim %d: %v, want only those on the node that is well", got.i, got.err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the node that hangs holds up the other's answers")
		}
	}
	cancel()
	<-done
	for range onB {
		if got := <-answers; got.i >= len(onB) || !errors.Is(got.err, locker.ErrUnavailable) {
			t.Errorf("claim %d: %v, want ErrUnavailable", got.i, got.err)
		}
	}
	b.Cont()
}

// In a cluster a message that reaches nobody on this node may reach somebody on
// another.
func TestInAClusterNobodyIsPassedOver(t *testing.T) {
	_, _, rdb := twoNodes(t)
	w := newEar()
	first, second := openFor(t, w, rdb), open(t, rdb)
	a, gone, last := claim("k"), claim("k"), claim("k")
	mustAcquire(t, second, a)
	queue(t, first, claim("k"))
	w.wakeAll(t) // told by a message, from now on
	if err := rdb.Del(t.Context(), line("k")).Err(); err != nil {
		t.Fatal(err)
	}
	queue(t, first, gone)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	queue(t, second, last)
	release(t, second, a, nil, locker.Released{Waiting: 2, Handed: true})
	if v := rdb.Get(t.Context(), lock("k")).Val(); len(v) < locker.OwnerLen || v[:locker.OwnerLen] != gone.Owner {
		t.Errorf("the key is %q, want it offered to the first in the queue", v)
	}
}
