package redislocker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Something else has put a key of another type where one of our keys is or will
// be.

const wrongAdvice = "choose another prefix with WithPrefix"

// onServerAndCluster runs test on a single server and on a cluster.
func onServerAndCluster(t *testing.T, test func(t *testing.T, l *redislocker.Locker, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("single", func(t *testing.T) {
		rdb := redistest.Client(t, redistest.Start(t).Addr)
		test(t, open(t, rdb), rdb)
	})
	t.Run("cluster", func(t *testing.T) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{redistest.StartCluster(t)[0].Addr}})
		t.Cleanup(func() { _ = rdb.Close() })
		test(t, open(t, rdb), rdb)
	})
}

// spoil makes name a set.
func spoil(t *testing.T, rdb redis.UniversalClient, name string) {
	t.Helper()
	if err := errors.Join(rdb.Del(t.Context(), name).Err(), rdb.SAdd(t.Context(), name, "theirs").Err()); err != nil {
		t.Fatal(err)
	}
}

// wantTold fails t unless err Is want and says what to do about a key of
// another type.
func wantTold(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), "WRONGTYPE") ||
		!strings.Contains(err.Error(), wrongAdvice) {
		t.Errorf("got %q, want one that Is %q, and says WRONGTYPE and what to do", err, want)
	}
}

// wantFree fails t if name is still there, or if the keys that others have put
// beside it are gone.
func wantFree(t *testing.T, rdb redis.UniversalClient, name, theirs string) {
	t.Helper()
	if n := rdb.Exists(t.Context(), name).Val(); n != 0 {
		t.Error("the lock is left")
	}
	if n := rdb.SCard(t.Context(), theirs).Val(); n != 1 {
		t.Error("what others have put there was touched")
	}
}

func TestAQueueOfAnotherTypeCostsNoLease(t *testing.T) {
	t.Parallel()
	onServerAndCluster(t, func(t *testing.T, l *redislocker.Locker, rdb redis.UniversalClient) {
		t.Helper()
		for name, under := range map[string]bool{"before": false, "under a lease": true} {
			c, queue := fenced(name), lock(name)+":wait"
			if !under {
				spoil(t, rdb, queue)
			}
			mustAcquire(t, l, c)
			spoil(t, rdb, queue)
			if err := renew(t.Context(), t, l, c)[0]; err != nil {
				t.Errorf("%s: Renew: %v", name, err)
			}
			if _, err := l.Fence(t.Context(), c); err != nil {
				t.Errorf("%s: Fence: %v", name, err)
			}
			_, err := l.Acquire(t.Context(), claim(name), locker.Try{Wait: true})
			if err == nil || !strings.Contains(err.Error(), wrongAdvice) {
				t.Errorf("%s: who cannot wait is told %v", name, err)
			}
			r, err := l.Release(t.Context(), c, locker.End{Next: claim(name)})
			if err != nil || r.Handed || r.Queued {
				t.Errorf("%s: Release: %+v, %v", name, r, err)
			}
			wantFree(t, rdb, lock(name), queue)
			mustAcquire(t, l, c)
			_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
			wantFree(t, rdb, lock(name), queue)
		}
	})
}

func TestACounterOfAnotherTypeEndsNoLease(t *testing.T) {
	t.Parallel()
	onServerAndCluster(t, func(t *testing.T, l *redislocker.Locker, rdb redis.UniversalClient) {
		t.Helper()
		c, counter := claim("k"), lock("k")+":fence"
		mustAcquire(t, l, c)
		spoil(t, rdb, counter)
		_, err := l.Fence(t.Context(), c)
		wantTold(t, err, locker.ErrUnavailable)
		if errors.Is(err, locker.ErrLeaseLost) {
			t.Errorf("the lease is good: %v", err)
		}
		if err := renew(t.Context(), t, l, c)[0]; err != nil {
			t.Errorf("Renew: %v", err)
		}
		mustRelease(t, l, c)
		wantFree(t, rdb, lock("k"), counter)
		permit := limited("k", 2)
		permit.Fencing = true
		for _, c := range []*locker.Claim{fenced("k"), permit} {
			_, err = l.Acquire(t.Context(), c, locker.Try{})
			if err == nil || !strings.Contains(err.Error(), wrongAdvice) {
				t.Errorf("Acquire with a token: %v, want advice", err)
			}
			wantFree(t, rdb, lock("k"), counter)
		}
	})
}

func TestARecordOfAnotherTypeKeepsNoMarkedLease(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l, c := open(t, rdb), recalls("k")
	mustAcquire(t, l, c)
	if record, err := l.Begin(t.Context(), c, locker.Record{Value: "mark", TTL: ttl}); record != "" || err != nil {
		t.Fatal(record, err)
	}
	spoil(t, rdb, lock("k")+":kept")
	if _, err := l.Release(t.Context(), c, locker.End{Unmark: true}); err != nil {
		t.Errorf("Release: %v", err)
	}
	wantFree(t, rdb, lock("k"), lock("k")+":kept")
}

// A server that refuses for now to write the counter says nothing about its type.
func TestACounterThatCannotBeWrittenNowIsTriedAgain(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	l, permit := open(t, rdb), limited("k", 2)
	permit.Fencing = true
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*locker.Claim{"alone": fenced("k"), "a permit": permit} {
		if _, err := l.Acquire(t.Context(), c, locker.Try{}); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%s, beyond maxmemory: %v, want ErrUnavailable", name, err)
		}
	}
}

func TestALockOfAnotherTypeIsLostWithTheReason(t *testing.T) {
	t.Parallel()
	onServerAndCluster(t, func(t *testing.T, l *redislocker.Locker, rdb redis.UniversalClient) {
		t.Helper()
		c := claim("secret")
		mustAcquire(t, l, c)
		spoil(t, rdb, lock("secret"))
		for _, how := range []locker.Try{{}, {Held: true}, {Wait: true, Held: true}, {Wait: true, Queued: true}} {
			expectRefusal(t, second(l.Acquire(t.Context(), claim("secret"), how)), c, "WithPrefix")
		}
		wantTold(t, renew(t.Context(), t, l, c)[0], locker.ErrLeaseLost)
		_, err := l.Fence(t.Context(), c)
		wantTold(t, err, locker.ErrLeaseLost)
		_, err = l.Release(t.Context(), c, locker.End{})
		wantTold(t, err, locker.ErrLeaseLost)
		_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
		if n := rdb.SCard(t.Context(), lock("secret")).Val(); n != 1 {
			t.Error("what others have put there was touched")
		}
	})
}

// spoiler is a hook that makes a key of each lease of Check a set. It does so
// with a client of its own, before the first request that names the key.
type spoiler struct {
	rdb    *redis.Client
	suffix string // of the key

	seen sync.Map // locks
}

func (s *spoiler) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spoiler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error { s.look(ctx, c); return next(ctx, c) }
}

func (s *spoiler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error { s.look(ctx, cs[0]); return next(ctx, cs) }
}

func (s *spoiler) look(ctx context.Context, c redis.Cmder) {
	for _, arg := range c.Args() {
		name, ok := arg.(string)
		if !ok || !strings.Contains(name, "{%probe:") || !strings.HasSuffix(name, "}") {
			continue
		}
		if _, seen := s.seen.LoadOrStore(name, true); !seen {
			s.rdb.SAdd(ctx, name+s.suffix, "theirs")
		}
		return
	}
}

func TestCheckSeesAKeyOfAnotherTypeInItsOwnLease(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	for _, suffix := range []string{"", ":wait", ":fence"} {
		s := &spoiler{rdb: rdb, suffix: suffix}
		err := open(t, rdb, redislocker.WithHook(s)).Check(t.Context(), ttl)
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || !strings.Contains(err.Error(), wrongAdvice) {
			t.Errorf("%q: %v", suffix, err)
		}
	}
}
