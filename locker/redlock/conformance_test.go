package redlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/redlock"
)

// forSuite makes a locker whose nodes count at once and may be slow. So the
// suite does not depend on the machine.
func forSuite(nodes []redis.UniversalClient) locker.Locker {
	return warm{redlock.New(nodes, redlock.WithRestartDelay(0), redlock.WithNodeLimit(5*time.Second))}
}

// warm has connections once it is open. On a busy machine a try of a short TTL
// has no time to open them.
type warm struct{ *redlock.Locker }

func (l warm) Open(w locker.Waker) error {
	if err := l.Locker.Open(w); err != nil {
		return err
	}
	for start := time.Now(); ; {
		_, err := l.Inspect(context.Background(), "warm")
		if err == nil || time.Since(start) > time.Minute {
			return err
		}
	}
}

// Acquire believes a refusal when it has come three times. A claim that was
// refused before may win a vote late, and gives it back a moment later.
func (l warm) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.Locker.Acquire(ctx, c, t)
	for n := 0; n < 2 && err == nil && !a.Acquired && t == (locker.Try{}); n++ {
		time.Sleep(5 * time.Millisecond)
		a, err = l.Locker.Acquire(ctx, c, t)
	}
	return a, err
}

func TestConformanceInVirtualTime(t *testing.T) {
	t.Parallel()
	newPair := func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		nodes := make([]redis.UniversalClient, 3)
		for i := range nodes {
			_, nodes[i] = redistest.Miniredis(t)
		}
		return forSuite(nodes), forSuite(nodes)
	}
	for i, c := range lockertest.Checks() {
		if i%testsize.Pick(1, 4) != 0 { // TestConformance has them all
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				switch err := c.Test(newPair(t)); {
				case errors.Is(err, lockertest.ErrSkipped):
					t.Skip(err) // it is no Sharer
				case err != nil:
					t.Error(err)
				}
			})
		})
	}
}

func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits
	servers := redistest.StartN(t, 3, "--databases", "1000")
	var next atomic.Int64
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		return onDatabases(t, servers, int(next.Add(1))-1)
	})
}

// A quorum hangs, and one node of three answers.
func TestConformanceWhileAQuorumHangs(t *testing.T) {
	t.Parallel() // it mostly waits
	lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		t.Helper()
		servers := redistest.StartN(t, 3)
		a, b = onDatabases(t, servers, 0)
		return a, b, func() (mend func()) {
			servers[0].Stop()
			servers[1].Stop()
			return func() {
				servers[0].Cont()
				servers[1].Cont()
			}
		}
	}, lockertest.AtOnce(4))
}

func onDatabases(t *testing.T, servers []*redistest.Server, db int) (a, b locker.Locker) {
	t.Helper()
	nodes := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr, DB: db})
		t.Cleanup(func() { _ = rdb.Close() })
		nodes[i] = rdb
	}
	return forSuite(nodes), forSuite(nodes)
}
