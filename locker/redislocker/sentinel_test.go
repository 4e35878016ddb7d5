package redislocker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func sentinelOptions(s *redisproc.Sentinel) *redis.FailoverOptions {
	return &redis.FailoverOptions{MasterName: redisproc.SentinelName, SentinelAddrs: s.Addrs()}
}

// A release that the old primary took after its replica was promoted is lost; the key must not wait for its TTL.
func TestHotKeyIsBackASecondAfterSentinelFailsOver(t *testing.T) {
	for _, test := range []struct {
		name      string
		processes int
		fault     func(s *redisproc.Sentinel) error
	}{
		{"by command, one process", 1, (*redisproc.Sentinel).Failover},
		{"by command, three processes", 3, (*redisproc.Sentinel).Failover},
		{"kill -9 of the primary, one process", 1, killPrimary},
		{"kill -9 of the primary, three processes", 3, killPrimary},
	} {
		t.Run(test.name, func(t *testing.T) {
			dialsEnd(t)
			s := redistest.StartSentinel(t)
			rdb := redis.NewFailoverClient(sentinelOptions(s))
			defer func() { _ = rdb.Close() }()
			c := startCrowd(t, test.processes, rdb, func() *redislocker.Locker {
				return redislocker.New(rdb, redislocker.WithSentinel(sentinelOptions(s)))
			})
			c.survives(t, false, func() error { return test.fault(s) })
			leftNothing(t, s.Nodes)
		})
	}
}

// go-redis has redis.Nil for a name that the sentinels do not know, and so has a script for a key that is held.
func TestAPrimaryThatSentinelsDoNotKnowIsARefusal(t *testing.T) {
	dialsEnd(t)
	s := redistest.StartSentinel(t)
	opts := sentinelOptions(s)
	opts.MasterName = "nobody"
	rdb := redis.NewFailoverClient(opts)
	defer func() { _ = rdb.Close() }()
	for name, l := range map[string]*redislocker.Locker{
		"WithSentinel":        redislocker.New(nil, redislocker.WithSentinel(opts)),
		"the caller's client": redislocker.New(rdb),
	} {
		t.Run(name, func(t *testing.T) {
			g, err := guard.New(l)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = g.Close(t.Context()) }()
			err = g.Do(t.Context(), "k", func(context.Context) error { return errors.New("ran") })
			if err == nil || errors.Is(err, guard.ErrNotAcquired) || !strings.Contains(err.Error(), "MasterName") {
				t.Errorf("%v, want a refusal that names MasterName", err)
			}
			_, err = l.Fence(t.Context(), &locker.Claim{Key: "k", Owner: "o", TTL: time.Second})
			if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrLeaseLost) {
				t.Errorf("a holder is told %v, which says nothing about its lease", err)
			}
		})
	}
}

func killPrimary(s *redisproc.Sentinel) error {
	old, err := s.Primary()
	if err != nil {
		return err
	}
	old.Kill()
	return s.AwaitOther(old)
}
