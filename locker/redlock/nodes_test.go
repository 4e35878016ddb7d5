package redlock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
	"github.com/go-lockguard/guard/locker/redlock"
)

func TestAMinorityOfDeadNodesCostsNothing(t *testing.T) {
	for _, n := range []int{3, 5} {
		servers := redistest.StartN(t, n)
		l := open(t, clientsOf(t, servers))
		kept := fenced("kept")
		mustAcquire(t, l, kept)
		heldOn(t, l, "kept", n)
		for _, s := range servers[:n/2] {
			s.Kill()
		}
		c := fenced("k")
		first := mustAcquire(t, l, c)
		if err := renew(t, l, c); err != nil {
			t.Errorf("%d nodes: Renew: %v", n, err)
		}
		if err := renew(t, l, kept); err != nil {
			t.Errorf("%d nodes: Renew of a lease from before: %v", n, err)
		}
		if token, err := l.Fence(t.Context(), c); err != nil || token < first+locker.FenceBlock {
			t.Errorf("%d nodes: Fence: %d, %v, want more than %d", n, token, err, first)
		}
		refused(t, l, claim("k"))
		mustRelease(t, l, c)
		mustAcquire(t, l, claim("k"))
	}
}

func TestWithoutAQuorumNothingIsGrantedOrRenewed(t *testing.T) {
	for _, n := range []int{3, 5} {
		servers := redistest.StartN(t, n)
		l := open(t, clientsOf(t, servers))
		kept := claim("kept")
		mustAcquire(t, l, kept)
		heldOn(t, l, "kept", n)
		for _, s := range servers[:n/2+1] {
			s.Kill()
		}
		c := fenced("k")
		for range 3 {
			if a, err := l.Acquire(t.Context(), c, locker.Try{}); !errors.Is(err, locker.ErrUnavailable) || a.Acquired {
				t.Fatalf("%d nodes: Acquire: %+v, %v, want ErrUnavailable", n, a, err)
			} else if alive := fmt.Sprintf(" %d of %d nodes answer", n/2, n); !strings.Contains(err.Error(), alive) {
				t.Errorf("%d nodes: Acquire: %v, want%s", n, err, alive)
			}
		}
		if err := renew(t, l, kept); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%d nodes: Renew: %v, want ErrUnavailable", n, err)
		}
		if _, err := l.Fence(t.Context(), kept); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%d nodes: Fence: %v, want ErrUnavailable", n, err)
		}
		if _, err := l.Release(t.Context(), kept, locker.End{}); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%d nodes: Release: %v, want ErrUnavailable", n, err)
		}
		for _, s := range servers[n/2+1:] {
			gone := 0 // looks in a row; a try that was on its way may vote once more, and that vote is given back too
			eventually(t, "votes are given back", func() bool {
				if gone++; has(t, s, "k") {
					gone = 0
				}
				return gone >= 20
			})
		}
	}
}

// If the other nodes can answer a call, it does not wait for a node that hangs.
func TestANodeThatHangsCostsNobodyMoreThanItsLimit(t *testing.T) {
	const limit = ttl / 2 // so much that nobody takes a busy machine for a wait
	servers := redistest.StartN(t, 3)
	l := open(t, clientsOf(t, servers), redlock.WithNodeLimit(limit))
	mustAcquire(t, l, claim("warm"))
	servers[2].Stop()
	t.Cleanup(servers[2].Cont)
	for range 20 {
		start := time.Now()
		c := fenced("k")
		mustAcquire(t, l, c)
		refused(t, l, claim("k"))
		if err := renew(t, l, c); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l, c)
		if took := time.Since(start); took > limit/2 {
			t.Errorf("a lease's life took %v beside a node that hangs", took)
		}
	}
}

func TestTwoHungNodesOfThreeBoundATry(t *testing.T) {
	const limit = 100 * time.Millisecond
	servers := redistest.StartN(t, 3)
	l := open(t, clientsOf(t, servers), redlock.WithNodeLimit(limit))
	mustAcquire(t, l, claim("warm"))
	for _, s := range servers[1:] {
		s.Stop()
		t.Cleanup(s.Cont)
	}
	start, c := time.Now(), claim("k")
	c.TTL = time.Hour // half of which bounds a try too
	if _, err := l.Acquire(t.Context(), c, locker.Try{}); !errors.Is(err, locker.ErrUnavailable) {
		t.Fatalf("Acquire: %v, want ErrUnavailable", err)
	}
	if took := time.Since(start); took > c.TTL/4 {
		t.Errorf("a try took %v where a node has %v", took, limit)
	}
}

func TestALeaseGrowsToAllNodes(t *testing.T) {
	servers := redistest.StartN(t, 5)
	l := open(t, clientsOf(t, servers), redlock.WithNodeLimit(2*time.Second))
	mustAcquire(t, l, claim("warm"))
	for _, s := range servers[3:] {
		s.Stop()
	}
	c := claim("k")
	mustAcquire(t, l, c)
	heldOn(t, l, "k", 3)
	for _, s := range servers[3:] {
		s.Cont()
	}
	heldOn(t, l, "k", 5)
	for _, s := range servers {
		if !has(t, s, "k") {
			t.Error("a node does not have the key")
		}
	}
	mustRelease(t, l, c)
	if held, nodes := l.Held("k"); held != 0 || nodes != 5 {
		t.Errorf("Held after the release: %d of %d", held, nodes)
	}
	for _, s := range servers {
		eventually(t, "the key is free on all nodes", func() bool { return !has(t, s, "k") })
	}
}

func TestALateTryIsCleanedUp(t *testing.T) {
	servers := redistest.StartN(t, 3)
	l := open(t, clientsOf(t, servers), redlock.WithNodeLimit(2*time.Second))
	mustAcquire(t, l, claim("warm"))
	servers[0].Stop()
	c := claim("k")
	mustAcquire(t, l, c)
	mustRelease(t, l, c)
	given := claim("given up")
	mustAcquire(t, l, given)
	_, _ = l.Release(t.Context(), given, locker.End{Queued: true})
	servers[0].Cont() // it now does the work of the requests that arrived meanwhile
	eventually(t, "the late tries are cleaned up",
		func() bool { return !has(t, servers[0], "k") && !has(t, servers[0], "given up") })
	time.Sleep(50 * time.Millisecond)
	if has(t, servers[0], "k") || has(t, servers[0], "given up") {
		t.Error("a late try has left its key")
	}
}

func TestARenewalNeverPutsALeaseTogetherAgain(t *testing.T) {
	servers := redistest.StartN(t, 3)
	l := open(t, clientsOf(t, servers))
	drop := func(s *redistest.Server) {
		if err := redistest.Client(t, s.Addr).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}

	c := claim("k")
	mustAcquire(t, l, c)
	heldOn(t, l, "k", 3)
	drop(servers[0])
	if err := renew(t, l, c); err != nil {
		t.Fatalf("Renew with one node that forgot: %v", err)
	}
	eventually(t, "it is taken again where no claim has it", func() bool { return has(t, servers[0], "k") })
	heldOn(t, l, "k", 3)

	drop(servers[0])
	drop(servers[1])
	if err := renew(t, l, c); !errors.Is(err, locker.ErrLeaseLost) {
		t.Fatalf("Renew with two nodes that forgot: %v, want ErrLeaseLost", err)
	}
	time.Sleep(100 * time.Millisecond) // enough for an effect that must not come
	if has(t, servers[0], "k") || has(t, servers[1], "k") {
		t.Error("a lease that was lost has come back")
	}
	if err := renew(t, l, c); !errors.Is(err, locker.ErrLeaseLost) {
		t.Fatalf("Renew of a lost lease: %v, want ErrLeaseLost", err)
	}
}

// found returns the names of the findings of Check, and the rest of the error.
func found(t *testing.T, l *redlock.Locker, ttl time.Duration) (names []string, rest error) {
	t.Helper()
	all, rest := locker.Findings(l.Check(t.Context(), ttl))
	for _, f := range all {
		names = append(names, f.Name+" "+f.Severity.String())
		if !strings.HasPrefix(f.Text, "redlock: ") || strings.Contains(f.Text, "guard: ") {
			t.Errorf("%q, want who says it and what, for a log", f.Text)
		}
	}
	return names, rest
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	servers := redistest.StartN(t, 3)
	l := open(t, clientsOf(t, servers))
	if names, err := found(t, l, ttl); names != nil || err != nil {
		t.Errorf("Check: %v, %v", names, err)
	}
	servers[0].Kill()
	if names, err := found(t, l, ttl); !slices.Equal(names, []string{"node warn"}) || err != nil {
		t.Errorf("Check with one node dead: %v, %v, want a warning", names, err)
	}
	servers[1].Kill()
	if _, err := found(t, l, ttl); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Check with two of three nodes dead: %v, want ErrUnavailable", err)
	}
	short := open(t, clientsOf(t, servers), redlock.WithRestartDelay(time.Second))
	if names, err := found(t, short, ttl); !slices.Equal(names, []string{"restart-delay refuse"}) || err != nil {
		t.Errorf("Check of a TTL longer than the restart delay: %v, %v", names, err)
	}
}

func TestCheckTellsWhatItFindsOnANode(t *testing.T) {
	servers := redistest.StartN(t, 3)
	l := open(t, clientsOf(t, servers))
	evicting := redistest.Client(t, servers[1].Addr)
	evicting.ConfigSet(t.Context(), "maxmemory", "100mb")
	evicting.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl")
	for range 2 { // the second time a node is dead
		all, err := locker.Findings(l.Check(t.Context(), ttl))
		of := func(f locker.Finding) bool {
			return f.Name == redislocker.FindingEviction && strings.Contains(f.Text, "node 2")
		}
		if err != nil || !slices.ContainsFunc(all, of) {
			t.Errorf("got %+v, %v", all, err)
		}
		servers[0].Kill()
	}
}

func TestCheckRefusesANodeThatIsOneOfSeveralWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := make([]redis.UniversalClient, 3)
		for i := range nodes {
			_, nodes[i] = redistest.Miniredis(t)
		}
		nodes[1] = redistest.MiniredisDialect(t, redistest.Dialect{
			Info: map[string]string{"replication": "role:active-replica\r\n"},
		})
		all, err := locker.Findings(open(t, nodes).Check(t.Context(), ttl))
		all = slices.DeleteFunc(all, func(f locker.Finding) bool { // a server in memory has no word on it
			return f.Name == redislocker.FindingEviction
		})
		if err != nil || len(all) != 1 || all[0].Name != redislocker.FindingWriters ||
			all[0].Severity != locker.Refuse || !strings.Contains(all[0].Text, "node 2") {
			t.Errorf("got %+v, %v", all, err)
		}
	})
}

func TestAServerThatIsTwoNodesCountsOnce(t *testing.T) {
	servers := redistest.StartN(t, 2)
	l := open(t, clientsOf(t, append(servers, servers[1])))
	if names, err := found(t, l, ttl); !slices.Equal(names, []string{"twin refuse"}) || err != nil {
		t.Errorf("Check: %v, %v, want the twin", names, err)
	}
	c := claim("k")
	mustAcquire(t, l, c)
	servers[1].Kill()
	if err := renew(t, l, c); err == nil {
		t.Error("one server of two was a quorum of three")
	}
}

// This repeats with real servers a test in virtual time. A server that has just
// started does not vote. A server that restarts does not vote until its
// restart delay is over. Then it is taken as well.
func TestARestartedServerIsHeldOut(t *testing.T) {
	t.Parallel() // it mostly waits
	const out = 3 * time.Second
	servers := redistest.StartN(t, 3)
	voted := func(s *redistest.Server) bool {
		if !has(t, s, "k") {
			return false
		}
		if up := uptime(t, s); up < out {
			t.Errorf("a server votes within %v of its start, want %v", up, out)
		}
		return true
	}
	l := open(t, clientsOf(t, servers), redlock.WithRestartDelay(out))
	c := claim("k")
	c.TTL = out
	a, err := l.Acquire(t.Context(), c, locker.Try{})
	told := errors.Is(err, locker.ErrUnavailable) && strings.Contains(err.Error(), "WithRestartDelay")
	if !a.Acquired && !told {
		t.Errorf("from servers that have just started: %v, want ErrUnavailable that names WithRestartDelay", err)
	}
	var renewed time.Time
	onAll := func() bool {
		asked := time.Now()
		switch err := renew(t, l, c); {
		case err == nil:
			renewed = asked
		case errors.Is(err, locker.ErrLeaseLost):
			if age := time.Since(renewed); age < out {
				t.Fatalf("Renew: %v, %v after the lease was renewed for %v", err, age, out)
			}
			mustAcquire(t, l, c) // the machine was too busy to renew it
		case !errors.Is(err, locker.ErrUnavailable):
			t.Fatalf("Renew: %v", err)
		}
		held, _ := l.Held("k")
		return held == 3 && !slices.ContainsFunc(servers, func(s *redistest.Server) bool { return !voted(s) })
	}
	mustAcquire(t, l, c)
	renewed = time.Now()
	eventually(t, "the lease is on all nodes", onAll)
	servers[0].Restart()
	eventually(t, "the lease is on the restarted node again", onAll)
}

// uptime returns how long s has run, in whole seconds that may be one too high.
func uptime(t testing.TB, s *redistest.Server) time.Duration {
	t.Helper()
	info, err := redistest.Client(t, s.Addr).InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	up, err := time.ParseDuration(info["Server"]["uptime_in_seconds"] + "s")
	if err != nil {
		t.Fatal(err)
	}
	return up
}
