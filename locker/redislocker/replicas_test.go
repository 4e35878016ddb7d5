package redislocker_test

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// replicaTime is a wait for a replica that answers. It is long because a busy
// machine may be slow.
const replicaTime = 10 * time.Second

// replicated starts a primary and a replica that follows it.
func replicated(t *testing.T) (primary, replica *redistest.Server) {
	t.Helper()
	primary = redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica = redistest.Start(t, "--replicaof", host+" "+port)
	rdb := redistest.Client(t, primary.Addr)
	conn := rdb.Conn()
	defer func() { _ = conn.Close() }()
	eventually(t, "the replica confirms what it gets", func() bool { // which it does some time after it is "online"
		conn.Set(t.Context(), "written", 1, 0)
		conn.Del(t.Context(), "written")
		return conn.Wait(t.Context(), 1, 100*time.Millisecond).Val() == 1
	})
	return primary, replica
}

func TestAnAcquiredKeyIsOnTheReplica(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	l := open(t, redistest.Client(t, primary.Addr), redislocker.WithReplicas(1, replicaTime))
	follower := redistest.Client(t, replica.Addr)
	for _, c := range []*locker.Claim{claim("a"), fenced("b")} {
		mustAcquire(t, l, c)
		if v := follower.Get(t.Context(), "guard:{"+c.Key+"}").Val(); !strings.HasPrefix(v, c.Owner) {
			t.Errorf("the replica has %q, want it owned by %q", v, c.Owner)
		}
		mustRelease(t, l, c)
	}
}

func TestAKeyThatTooFewReplicasHaveIsFreedAndUnavailable(t *testing.T) {
	primary, replica := replicated(t)
	rdb := redistest.Client(t, primary.Addr)
	l := open(t, rdb, redislocker.WithReplicas(1, 100*time.Millisecond))
	eventually(t, "the replica confirms within the limit", func() bool {
		a, err := l.Acquire(t.Context(), claim("warm"), locker.Try{})
		return err == nil && a.Acquired
	})
	replica.Stop()
	defer replica.Cont()
	for _, c := range []*locker.Claim{claim("a"), fenced("b")} {
		start := time.Now()
		a, err := l.Acquire(t.Context(), c, locker.Try{})
		var short *redislocker.ReplicasError
		if a.Acquired || !errors.Is(err, locker.ErrUnavailable) || !errors.As(err, &short) ||
			short.Got != 0 || short.Want != 1 {
			t.Fatalf("%+v, %v, want it unavailable for want of a replica", a, err)
		}
		if text := err.Error(); !strings.Contains(text,
			"0 of 1 replicas confirmed the key within 100ms; 1 is connected") {
			t.Errorf("%q, want no limit but that of WithReplicas", text)
		}
		if d := time.Since(start); d < 100*time.Millisecond {
			t.Errorf("it gave up after %v", d)
		}
		if n := rdb.Exists(t.Context(), "guard:{"+c.Key+"}").Val(); n != 0 {
			t.Error("the key was not freed")
		}
	}
	replica.Cont()
	eventually(t, "the same claim is acquired once the replica is back", func() bool {
		a, err := l.Acquire(t.Context(), claim("c"), locker.Try{})
		return err == nil && a.Acquired
	})
}

// The wait ends before the try does, so that the cause can be reported. A
// machine that stands still may take the rest of the try, so another may do.
func TestTheWaitForReplicasFitsIntoTheTry(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	rdb := redistest.Client(t, primary.Addr)
	l := open(t, rdb, redislocker.WithReplicas(1, time.Hour))
	mustAcquire(t, l, claim("warm"))
	replica.Stop()
	defer replica.Cont()
	const limit = time.Second
	var err error
	for n := range 10 {
		key := "k" + strconv.Itoa(n)
		_, err = l.Acquire(within(t, limit), claim(key), locker.Try{})
		var short *redislocker.ReplicasError
		if errors.As(err, &short) && short.Within < limit && strings.Contains(err.Error(),
			"0 of 1 replicas confirmed the key within "+short.Within.String()+
				" (the try's limit; WithReplicas has 1h0m0s); 1 is connected") &&
			rdb.Exists(t.Context(), lock(key)).Val() == 0 {
			return
		}
	}
	t.Errorf("%v, want the key freed and an error that says whose limit it was", err)
}

// A claim may have acquired the key that it was handed before the replicas fail
// to confirm the hand-over. So the key stays its own, and the claim is told to
// acquire it.
func TestAHandOverThatReplicasMissedIsLeftToItsClaim(t *testing.T) {
	primary, replica := replicated(t)
	rdb := redistest.Client(t, primary.Addr)
	e := newEar()
	a := open(t, rdb, redislocker.WithReplicas(1, replicaTime))
	b := openFor(t, e, rdb, redislocker.WithReplicas(1, 300*time.Millisecond))
	c, next := claim("k"), claim("k")
	mustAcquire(t, a, c)
	queue(t, b, next)
	e.wakeAll(t)
	replica.Stop()
	release(t, a, c, nil, locker.Released{Waiting: 1, Handed: true})
	if got := e.next(t, "a grant"); got.what != "granted" || got.owner != next.Owner || got.offer.Length != 0 {
		t.Errorf("heard %+v, want a grant of no length", got)
	}
	replica.Cont()
	eventually(t, "the claim has its key", func() bool {
		answer, err := b.Acquire(t.Context(), next, locker.Try{Queued: true, Wait: true})
		return err == nil && answer.Acquired
	})
	mustRelease(t, b, next)
}

func TestReplicasOfAClusterAreWaitedFor(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartReplicatedCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	defer func() { _ = rdb.Close() }()
	l := open(t, rdb, redislocker.WithReplicas(1, 400*time.Millisecond))
	acquired := func() bool {
		c := fenced("a")
		a, err := l.Acquire(within(t, replicaTime), c, locker.Try{})
		if err != nil || !a.Acquired {
			_, _ = l.Release(t.Context(), c, locker.End{Queued: true}) // it may own the key all the same
			return false
		}
		mustRelease(t, l, c)
		return true
	}
	eventually(t, "the key is acquired once the replica confirms", acquired)
	slot, err := cluster.Slot("a")
	if err != nil {
		t.Fatal(err)
	}
	old, err := cluster.Primary(slot)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Failover(slot, ""); err != nil { // the client does not know yet
		t.Fatal(err)
	}
	eventually(t, "the key is acquired from the new primary, which the old one follows", acquired)
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	var short *redislocker.ReplicasError
	if _, err := l.Acquire(within(t, replicaTime), fenced("a"), locker.Try{}); !errors.As(err, &short) {
		t.Errorf("%v, want a ReplicasError", err)
	}
}

func TestAShareThatTooFewReplicasHaveIsFreedAlone(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	rdb := redistest.Client(t, primary.Addr)
	l := open(t, rdb, redislocker.WithReplicas(1, 100*time.Millisecond))
	a, b := limited("k", locker.NoLimit), limited("k", locker.NoLimit)
	eventually(t, "the replica confirms within the limit", func() bool {
		got, err := l.Acquire(t.Context(), a, locker.Try{})
		return err == nil && got.Acquired
	})
	replica.Stop()
	defer replica.Cont()
	var short *redislocker.ReplicasError
	if _, err := l.Acquire(within(t, 10*time.Second), b, locker.Try{}); !errors.As(err, &short) {
		t.Errorf("Acquire: %v, want a ReplicasError", err)
	}
	if n := rdb.ZCard(t.Context(), crowdOf("k")).Val(); n != 1 || !owns(t, l, a) {
		t.Errorf("%d shares, want the one from before", n)
	}
}
