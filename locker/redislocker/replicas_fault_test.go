package redislocker_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// afterWait calls do when a WAIT has been answered.
type afterWait struct{ do func() }

func (h afterWait) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h afterWait) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "wait" {
			h.do()
		}
		return err
	}
}

func (h afterWait) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Too few replicas have the key, so the try releases it. This release may
// arrive late, and would free the key of the next try under the same owner id.
// So there must be no such try (law 8).
func TestAClaimWhoseKeyWasPerhapsFreedIsGivenUp(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	p := redistest.NewProxy(t, primary.Addr)
	l := open(t, redistest.Client(t, p.Addr), redislocker.WithReplicas(1, 100*time.Millisecond),
		redislocker.WithHook(afterWait{func() { p.DropUp(true) }}))
	replica.Stop()
	defer replica.Cont()
	a, err := l.Acquire(within(t, 5*time.Second), claim("k"), locker.Try{})
	if !errors.Is(err, locker.ErrUnavailable) || !a.Queued {
		t.Errorf("%+v, %v, want it unavailable and the claim given up", a, err)
	}
	p.DropUp(false)
}

// Acquires that wait for a hanging replica leave connections for holders that
// must renew.
func TestRenewalsDoNotWaitBehindThoseWhoWaitForReplicas(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	rdb := redistest.Client(t, primary.Addr)
	l := open(t, rdb, redislocker.WithReplicas(1, replicaTime))
	c := claim("kept")
	mustAcquire(t, l, c)
	replica.Stop()
	defer replica.Cont()
	ctx, cancel := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	var ended atomic.Int64 // of the crowd's acquires
	for i := range 32 {
		crowd.Go(func() { // ends with ctx
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = l.Acquire(ctx, claim(strconv.Itoa(i)+"-"+strconv.Itoa(n)), locker.Try{})
				ended.Add(1)
			}
		})
	}
	eventually(t, "12 wait for the replica", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "clients").Val(), "blocked_clients:12\r\n")
	})
	eventually(t, "a renewal ends before those who wait for the replica", func() bool {
		before := ended.Load()
		return renew(t.Context(), t, l, c)[0] == nil && ended.Load() == before
	})
	cancel()
	replica.Cont()
	crowd.Wait()
}
