package redislocker_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
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

func killPrimary(s *redisproc.Sentinel) error {
	old, err := s.Primary()
	if err != nil {
		return err
	}
	old.Kill()
	return s.AwaitOther(old)
}
