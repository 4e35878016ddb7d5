package guard_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// A gatekeeper sees which functions run without a lease, by key.
type gatekeeper struct {
	guard.NopObserver

	mu   sync.Mutex // guards runs
	runs map[string][]guard.WaitResult
}

func (k *gatekeeper) WaitEnd(_ context.Context, w guard.WaitInfo, r guard.WaitResult) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs == nil {
		k.runs = map[string][]guard.WaitResult{}
	}
	k.runs[w.Key] = append(k.runs[w.Key], r)
}

// forgets returns the waits for a key since the last call.
func (k *gatekeeper) forgets(key string) (all []guard.WaitResult) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, k.runs[key] = k.runs[key], nil
	return all
}

// wantShut fails t if a function ran without a lease although the server of its
// key was there. A machine that stands still makes a server look silent. Then a
// try has waited for its whole limit, which is 500 ms.
func (k *gatekeeper) wantShut(t *testing.T, key string) (guarded int, refused []error) {
	t.Helper()
	for _, r := range k.forgets(key) {
		switch {
		case r.Unguarded && r.Waited < 250*time.Millisecond:
			t.Errorf("key %s: a function ran without a lease after %v: %v", key, r.Waited, r.Err)
		case r.Unguarded && !errors.Is(r.Err, locker.ErrSilent):
			t.Errorf("key %s: a function ran without a lease, because of %v", key, r.Err)
		case r.Unguarded:
			t.Logf("key %s: the server was silent for %v", key, r.Waited)
		case r.Err == nil:
			guarded++
		default:
			refused = append(refused, r.Err)
		}
	}
	return guarded, refused
}

// failsOpen returns a guard that lets functions run while the store is silent.
// Each of its calls makes one try.
func failsOpen(t *testing.T, rdb redis.UniversalClient) (*guard.Guard, *gatekeeper) {
	t.Helper()
	seen := &gatekeeper{}
	return newGuard(t, redislocker.New(rdb), guard.WithFailOpen(), guard.WithMaxWait(0),
		guard.WithObserver(seen)), seen
}

// nodeKeys returns a key on each primary of c.
func nodeKeys(t *testing.T, c *redisproc.Cluster) map[*redisproc.Server]string {
	t.Helper()
	keys := map[*redisproc.Server]string{}
	for i := 0; len(keys) < len(c.Nodes); i++ {
		key := "k" + strconv.Itoa(i)
		slot, err := c.Slot("guard:{" + key + "}")
		if err != nil {
			t.Fatal(err)
		}
		node, err := c.Primary(slot)
		if err != nil {
			t.Fatal(err)
		}
		if keys[node] == "" {
			keys[node] = key
		}
	}
	return keys
}

// texts returns the texts of errs.
func texts(errs []error) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

// holds returns an error if it runs without a lease.
func holds(ctx context.Context) error {
	if _, ok := guard.LeaseFrom(ctx); !ok {
		return guard.ErrNoLease
	}
	return nil
}

func onCluster(t *testing.T) (*redisproc.Cluster, *redis.ClusterClient) {
	t.Helper()
	c, err := redistest.Lab(t).StartCluster(false, "--cluster-require-full-coverage", "no")
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = rdb.Close() })
	return c, rdb
}

func TestDo_ADeadShardOfAClusterOpensTheGateForItsOwnKeysAlone(t *testing.T) {
	t.Parallel()
	c, rdb := onCluster(t)
	keys := nodeKeys(t, c)
	g, seen := failsOpen(t, rdb)
	for _, key := range keys {
		_ = g.Do(t.Context(), key, nop)
	}
	dead := c.Nodes[0]
	dead.Kill()

	// The outage of the dead shard is known when a call makes no try.
	known := false
	for end := time.Now().Add(time.Minute); !known; {
		_ = g.Do(t.Context(), keys[dead], nop)
		for _, r := range seen.forgets(keys[dead]) {
			known = known || r.Unguarded && r.Attempts == 0
		}
		if time.Now().After(end) {
			t.Fatal("the outage of a dead shard never became known")
		}
	}
	for range 100 {
		for _, key := range keys {
			_ = g.Do(t.Context(), key, nop)
		}
	}
	for node, key := range keys {
		if node == dead {
			continue
		}
		if guarded, refused := seen.wantShut(t, key); guarded == 0 {
			t.Errorf("key %s of a shard that is well was never held: %v", key, refused)
		}
	}
}

func TestDo_ASlotThatMovesInAClusterOpensTheGateForNobody(t *testing.T) {
	t.Parallel()
	c, rdb := onCluster(t)
	keys := nodeKeys(t, c)
	g, seen := failsOpen(t, rdb)
	slot, err := c.Slot("guard:{" + keys[c.Nodes[0]] + "}")
	if err != nil {
		t.Fatal(err)
	}
	moved := make(chan error, 1)
	go func() { moved <- c.Migrate(slot, c.Nodes[1], time.Second) }()
	for moving := true; moving; {
		select {
		case err := <-moved:
			if moving = false; err != nil {
				t.Error(err)
			}
		default:
		}
		for _, key := range keys {
			_ = g.Do(t.Context(), key, nop)
		}
	}
	for end := time.Now().Add(time.Minute); g.Do(t.Context(), keys[c.Nodes[0]], holds) != nil; {
		if time.Now().After(end) {
			t.Fatal("the key whose slot has moved is never held again")
		}
	}
	for _, key := range keys {
		guarded, refused := seen.wantShut(t, key)
		if guarded == 0 {
			t.Errorf("key %s was never held: %v", key, refused)
		}
		t.Logf("key %s: held %d times, refused %d times: %v", key, guarded, len(refused),
			slices.Compact(texts(refused)))
	}
}

// The first tries after a lost lease have no connection. They do not hide the
// silence that the later ones hear.
func TestDo_FailOpenOpensAfterALeaseThatTheSilenceHasEnded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	seen := &gatekeeper{}
	g := newGuard(t, redislocker.New(redistest.Client(t, s.Addr)), guard.WithFailOpen(),
		guard.WithTTL(time.Second), guard.WithMaxWait(5*time.Second), guard.WithObserver(seen))
	for i := range 2 { // the second time no connection is left from before
		wantErr(t, g.Do(t.Context(), "lost", func(ctx context.Context) error {
			s.Stop()
			<-ctx.Done()
			return nil
		}), guard.ErrLeaseLost)
		err := g.Do(t.Context(), key, nop)
		if rs := seen.forgets(key); err != nil || !rs[0].Unguarded {
			t.Errorf("round %d: %v, after %+v", i, err, rs)
		}
		s.Cont()
		for g.Check(t.Context()) != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
}
