package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Keys that several have at once.

// patient is the time that a busy machine gets beyond the promise. It is less
// than what the fault would cost without the promise, which is long.
const patient = 5 * slow

func TestFault45AKilledReaderOrPermitCostsItsOwnTTL(t *testing.T) {
	begin(t)
	s := serve(t)
	open := func(mode guard.Option) *guard.Guard {
		return on(t, s.Addr, mode, guard.WithTTL(long), guard.WithMaxWait(long))
	}

	living := acquire(t, open(guard.WithShared()), key)
	dead := rig.Spawn(t, "reader", s.Addr)
	dead.Says("holds")
	dead.Kill()
	start := time.Now()
	mustRelease(t, living)
	mustRelease(t, acquire(t, open(guard.WithPermits(1)), key))
	writer := took(t, "the writer behind a dead reader", start, processTTL+patient)

	living = acquire(t, open(guard.WithPermits(2)), key)
	dead = rig.Spawn(t, "permit", s.Addr)
	dead.Says("holds")
	dead.Kill()
	start = time.Now()
	mustRelease(t, acquire(t, open(guard.WithPermits(2)), key))
	permit := took(t, "the permit of a dead process", start, processTTL+patient)
	mustRelease(t, living) // held all the time, and renewed
	keeps(t, "a writer came in %v after a reader was killed, and a permit was free %v after its holder was, "+
		"beside one that is renewed (TTL %v)", writer, permit, processTTL)
}

func TestFault46ADeadWriterDoesNotKeepReadersOut(t *testing.T) {
	begin(t)
	deadWriter(t, oneServer(t))
}

func TestFault46ADeadWriterInACluster(t *testing.T) {
	begin(t)
	deadWriter(t, inACluster(t))
}

// deadWriter kills a writer that waits for readers. Others want to read while
// the first reader goes on.
func deadWriter(t *testing.T, p *place) {
	t.Helper()
	rdb := p.client(t)
	first := p.open(t, guard.WithShared(), guard.WithTTL(long))
	second := p.open(t, guard.WithShared(), guard.WithTTL(long), guard.WithMaxWait(long))
	warm(t, second)
	held := acquire(t, first, key)
	dead := rig.Spawn(t, "waiter", p.to)
	testguard.Eventually(t, "the writer waits", func() bool {
		return rdb.ZCard(t.Context(), lock(key)+":wait").Val() == 1
	})
	dead.Kill()
	start := time.Now()
	l := acquire(t, second, key)
	d := took(t, "a reader behind a dead writer", start, 1250*time.Millisecond+patient)
	mustRelease(t, l)
	mustRelease(t, held)
	keeps(t, "%s: a reader came in %v after the writer in front of it was killed, beside one that stays", p.name, d)
}

func TestFault47AFailoverKeepsThoseWhoShareAKey(t *testing.T) {
	begin(t)
	primary := serve(t, "--repl-diskless-sync-delay", "0")
	replica, _ := follower(t, primary)
	way, rdb := rig.NewRoute(t, primary.Addr)
	another := redis.NewClient(&redis.Options{Addr: primary.Addr, Dialer: way.Dial})
	t.Cleanup(func() { _ = another.Close() })
	const read, limited = "read", "limited"
	var leases []*guard.Lease
	for _, rdb := range []*redis.Client{rdb, another} {
		// a try may have no time for the replica on a busy machine; the next has
		l := redislocker.New(rdb, redislocker.WithReplicas(1, long))
		g := newGuardOn(t, l, guard.WithTTL(long), guard.WithMaxWait(long))
		leases = append(leases, acquire(t, g.With(guard.WithShared()), read),
			acquire(t, g.With(guard.WithPermits(2)), limited))
	}
	primary.Kill()
	command(t, redistest.Client(t, replica.Addr), "replicaof", "no", "one")
	way.To(replica.Addr)

	g := on(t, replica.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	warm(t, g)
	refused := func(g *guard.Guard, key string) {
		t.Helper()
		testguard.Eventually(t, "the key is refused", func() bool { // a busy server is unavailable
			_, err := g.TryAcquire(t.Context(), key)
			if errors.Is(err, guard.ErrUnavailable) {
				return false
			}
			wantErr(t, err, guard.ErrNotAcquired)
			return true
		})
	}
	refused(g, read)
	refused(g, limited)
	refused(g.With(guard.WithPermits(2)), limited)
	mustRelease(t, acquire(t, g.With(guard.WithShared()), read))
	for _, l := range leases {
		mustRelease(t, l)
	}
	mustRelease(t, acquire(t, g, read))
	mustRelease(t, acquire(t, g, limited))
	keeps(t, "2 readers and 2 permits with WithReplicas, the primary killed at once: all kept; a writer and a third "+
		"permit were refused, another reader came in")
}
