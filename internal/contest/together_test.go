package contest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

const ttl = time.Second

// rush lets three guards on one memory compete. wrap may spoil their store.
func rush(t *testing.T, wrap func(locker.Locker) locker.Locker, roles ...string) *judge.Verdict {
	t.Helper()
	mem := memlocker.New()
	var workers []*contest.Worker
	for range 3 {
		g, err := contest.Open(wrap(mem.Peer()), nil, guard.WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, &contest.Worker{
			Callers: 4, Keys: 3, Long: 5, Roles: roles, TTL: ttl, Seed: 1, Locker: g,
		})
	}
	return contest.Together(t.Context(), workers, 10*time.Second, judge.Run{
		Library: judge.Library{Name: "guard", Own: true, Tokens: true, Tells: true},
		Roles:   roles, Slack: time.Second, GapSlack: time.Second, Least: 100,
	})
}

func same(l locker.Locker) locker.Locker { return l }

func TestGuardKeepsItsPromisesInMemory(t *testing.T) {
	for _, roles := range [][]string{
		nil, {judge.Reader, judge.Permit, judge.Writer, judge.Cart}, {judge.Writer, judge.Once, judge.Payment},
	} {
		synctest.Test(t, func(t *testing.T) {
			if v := rush(t, same, roles...); v.Total() > 0 {
				t.Errorf("%v: %d grants, %q", roles, v.Grants, v.Texts)
			}
		})
	}
}

// open frees the key before the holder has used it.
type open struct{ locker.Locker }

func (o open) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := o.Locker.Acquire(ctx, c, t)
	if a.Acquired {
		_, _ = o.Release(ctx, c, locker.End{Queued: true})
	}
	return a, err
}

func TestAStoreThatDoesNotExcludeIsCaught(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if v := rush(t, func(l locker.Locker) locker.Locker { return open{l} }); !v.Fails() {
			t.Errorf("%d grants, and nothing was found", v.Grants)
		}
	})
}
