package libs

import (
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/locker/redislocker"
	"github.com/go-lockguard/guard/locker/redlock"
)

// Guard is this module's own library with its defaults and fencing tokens. On
// [Redlock] it uses package redlock.
var Guard = &Library{
	Name: "guard", Renews: true, Tells: true, Tokens: true,
	Topologies: Topologies,
	Keys:       func(key string) []string { return []string{"guard:{" + key + "}", "guard:{" + key + "}:crowd"} },
	open:       openGuard,
}

func openGuard(s Setup) (Locker, error) {
	store, end, err := newStore(s)
	if err != nil {
		return nil, err
	}
	if s.Wrap != nil {
		store = s.Wrap(store)
	}
	opts := []guard.Option{guard.WithTTL(s.TTL)}
	if s.NoRenewal {
		opts = append(opts, guard.WithoutRenewal())
	}
	g, err := contest.Open(store, end, append(opts, s.Options...)...)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// newStore opens the store. end closes its clients; nil if the store does.
func newStore(s Setup) (l guard.Locker, end func() error, err error) {
	if !slices.Contains(Redises, s.Topology) {
		return newOther(s)
	}
	rdbs := s.clients()
	end = func() error { return closeAll(rdbs) }
	var opts []redislocker.Option
	if s.Replicas > 0 {
		opts = append(opts, redislocker.WithReplicas(s.Replicas, 100*time.Millisecond))
	}
	switch {
	case s.Topology == Sentinel:
		return redislocker.New(rdbs[0], append(opts, redislocker.WithSentinel(s.failover()))...), end, nil
	case s.Topology == Redlock && s.RestartDelay > 0:
		return redlock.New(rdbs, redlock.WithRestartDelay(s.RestartDelay)), end, nil
	case s.Topology == Redlock:
		return redlock.New(rdbs), end, nil
	}
	return redislocker.New(rdbs[0], opts...), end, nil
}

func closeAll(rdbs []redis.UniversalClient) (err error) {
	for _, rdb := range rdbs {
		err = errors.Join(err, rdb.Close())
	}
	return err
}
