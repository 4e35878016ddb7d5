package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// A holder that can reach only a minority learns of its loss before another can
// have the key. It needs no message for that.
func TestAHolderThatIsCutOffIsToldBeforeAnotherGetsTheKey(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second // which a machine that stands still for a second does not end
	servers := redistest.StartN(t, 3)
	proxies, nodes := behindProxies(t, servers)
	cut := newGuard(t, nodes, guard.WithTTL(lease))
	other := newGuard(t, clientsOf(t, servers), guard.WithTTL(lease), guard.WithMaxWait(time.Minute))

	held, err := cut.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range proxies[1:] {
		p.DropUp(true)
	}
	next, err := other.Acquire(t.Context(), "k")
	if held.Err() == nil {
		t.Errorf("another has the key in the lease of the holder, which ends in %v", time.Until(held.Deadline()))
	}
	if err != nil {
		t.Fatal(err)
	}
	<-held.Context().Done()
	if err := context.Cause(held.Context()); !errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("cause: %v, want ErrLeaseLost", err)
	}
	for _, p := range proxies {
		p.DropUp(false)
	}
	_ = held.Release(t.Context())
	if next.Err() != nil {
		t.Errorf("the late release took the key from the next: %v", next.Err())
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// Requests that arrive leave no votes behind if their answers get lost.
func TestVotesWhoseAnswersGetLostAreCleanedUp(t *testing.T) {
	servers := redistest.StartN(t, 3)
	proxies, nodes := behindProxies(t, servers)
	g := newGuard(t, nodes)
	warm, err := g.Acquire(t.Context(), "warm")
	if err != nil {
		t.Fatal(err)
	}
	if err := warm.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range proxies[:2] {
		p.DropDown(true)
	}
	_, err = g.With(guard.WithMaxWait(300*time.Millisecond)).Acquire(t.Context(), "k")
	if !errors.Is(err, guard.ErrUnavailable) {
		t.Errorf("Acquire: %v, want ErrUnavailable", err)
	}
	for _, p := range proxies[:2] {
		p.DropDown(false)
	}
	for _, s := range servers {
		eventually(t, "the votes are gone long before their TTL", func() bool { return !has(t, s, "k") })
	}
}

func TestASlowNodeDelaysNobody(t *testing.T) {
	const delay = 300 * time.Millisecond
	servers := redistest.StartN(t, 3)
	proxies, nodes := behindProxies(t, servers)
	g := newGuard(t, nodes, guard.WithFencing())
	proxies[0].DelayReplies(delay)
	var s section
	fastest := time.Hour
	for range 20 {
		start := time.Now()
		if err := g.Do(t.Context(), "k", func(ctx context.Context) error { return s.enter(ctx, t) }); err != nil {
			t.Fatal(err)
		}
		fastest = min(fastest, time.Since(start))
	}
	if fastest >= delay { // as each turn would take that waits for the node
		t.Errorf("the fastest of 20 turns took %v beside a node that is %v late", fastest, delay)
	}
	s.check(t)
}

func TestSeveralKeysAtOnce(t *testing.T) {
	servers := redistest.StartN(t, 3)
	a, b := newGuard(t, clientsOf(t, servers)), newGuard(t, clientsOf(t, servers))
	keys := []string{"z", "a", "m", "a"}
	ran := false
	err := a.DoAll(t.Context(), keys, func(context.Context) error {
		ran = true
		for _, key := range keys {
			_, err := b.TryAcquire(t.Context(), key)
			for n := 0; n < 10 && errors.Is(err, guard.ErrUnavailable); n++ { // on a busy machine nodes are late
				_, err = b.TryAcquire(t.Context(), key)
			}
			if !errors.Is(err, guard.ErrNotAcquired) {
				t.Errorf("TryAcquire of %q inside: %v, want ErrNotAcquired", key, err)
			}
		}
		return nil
	})
	if err != nil || !ran {
		t.Errorf("DoAll: %v, ran %v", err, ran)
	}
	beforeTTL := guard.WithMaxWait(5 * time.Second)
	err = b.With(beforeTTL).DoAll(t.Context(), keys, func(context.Context) error { return nil })
	if err != nil {
		t.Errorf("DoAll by another, after it: %v", err)
	}
}

// The caller's clients only tell where the nodes are, and stay open.
func TestClientsStayTheCallers(t *testing.T) {
	servers := redistest.StartN(t, 3)
	nodes := clientsOf(t, servers)
	l := open(t, nodes)
	mustAcquire(t, l, claim("k"))
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		c, _ := n.(*redis.Client)
		if used := c.PoolStats().Misses; used != 0 {
			t.Errorf("node %d: the caller's pool was used %d times", i+1, used)
		}
		if err := n.Ping(t.Context()).Err(); err != nil {
			t.Errorf("node %d: the caller's client: %v", i+1, err)
		}
	}
}
