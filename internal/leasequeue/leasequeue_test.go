package leasequeue_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/leasequeue"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// acquired returns a guard, and two leases of it on "a". The first has ended.
func acquired(t *testing.T) (g *guard.Guard, leases []*guard.Lease) {
	t.Helper()
	g = testguard.Patient(t, memlocker.New(), guard.WithMaxHold(time.Second))
	for range 2 {
		l, err := g.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	return g, leases
}

// A's lease ends, and B takes the key. Whoever unlocks first, nobody frees the
// key of B while B runs.
func TestTheFirstToUnlockReleasesTheOldestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q leasequeue.Queue
		g, leases := acquired(t)
		q.Put("a", leases[0])
		q.Put("a", leases[1])
		if q.Oldest("a") != leases[0] || q.Oldest("b") != nil || q.Take("b") != nil {
			t.Error("the oldest lease of a name is not the one that was put first")
		}
		if err := q.Take("a").Release(t.Context()); !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("the first Release returned %v, want ErrLeaseLost", err)
		}
		if _, err := g.TryAcquire(t.Context(), "a"); !errors.Is(err, guard.ErrNotAcquired) {
			t.Errorf("a third caller got the key beside the second: %v", err)
		}
		if err := q.Take("a").Release(t.Context()); err != nil {
			t.Error(err)
		}
		if q.Take("a") != nil {
			t.Error("a third lease")
		}
	})
}

// A loses its lease before it can put it, and B is faster.
func TestALostLeaseThatIsPutLateGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q leasequeue.Queue
		_, leases := acquired(t)
		q.Put("a", leases[1])
		q.Put("a", leases[0])
		for i, l := range leases {
			if q.Take("a") != l {
				t.Errorf("the lease that is taken in place %d is the other one", i+1)
			}
			_ = l.Release(t.Context())
		}
	})
}
