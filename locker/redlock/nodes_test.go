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

// That nobody waits for such a node, TestASlowNodeDelaysNobody shows.
func TestALeaseLivesBesideANodeThatHangs(t *testing.T) {
	servers := redistest.StartN(t, 3)
	l := open(t, clientsOf(t, servers), redlock.WithNodeLimit(ttl/2))
	mustAcquire(t, l, claim("warm"))
	servers[2].Stop()
	t.Cleanup(servers[2].Cont)
	for range 20 {
		c := fenced("k")
		mustAcquire(t, l, c)
		refused(t, l, claim("k"))
		if err := renew(t, l, c); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l, c)
	}
}

func TestTwoHungNodesOfThreeMakeATryUnavailable(t *testing.T) {
	servers := redistest.StartN(t, 3)
	l := open(t, clientsOf(t, servers), redlock.WithNodeLimit(100*time.Millisecond))
	mustAcquire(t, l, claim("warm"))
	for _, s := range servers[1:] {
		s.Stop()
		t.Cleanup(s.Cont)
	}
	if _, err := l.Acquire(t.Context(), claim("k"), locker.Try{}); !errors.Is(err, locker.ErrUnavailable) {
		t.Fatalf("Acquire: %v, want ErrUnavailable", err)
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

// Fault30 in lab/torture restarts real servers.
func TestAServerThatHasJustStartedDoesNotVote(t *testing.T) {
	l := open(t, clientsOf(t, redistest.StartN(t, 3)), redlock.WithRestartDelay(time.Hour))
	a, err := l.Acquire(t.Context(), claim("k"), locker.Try{})
	if a.Acquired || !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "WithRestartDelay") {
		t.Errorf("%+v, %v, want ErrUnavailable that names WithRestartDelay", a, err)
	}
}
