package libs

import (
	"errors"
	"log/slog"

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
	rdbs := s.clients()
	store := newStore(s, rdbs)
	if s.Wrap != nil {
		store = s.Wrap(store)
	}
	opts := []guard.Option{guard.WithTTL(s.TTL), guard.WithFencing(), guard.WithLogger(slog.New(slog.DiscardHandler))}
	if s.NoRenewal {
		opts = append(opts, guard.WithoutRenewal())
	}
	g, err := guard.New(store, append(opts, s.Options...)...)
	if err != nil {
		return nil, errors.Join(err, closeAll(rdbs))
	}
	return &contest.Guard{Guard: g, End: func() error { return closeAll(rdbs) }}, nil
}

func newStore(s Setup, rdbs []redis.UniversalClient) guard.Locker {
	switch s.Topology {
	case Sentinel:
		return redislocker.New(rdbs[0], redislocker.WithSentinel(s.failover()))
	case Redlock:
		if s.RestartDelay > 0 {
			return redlock.New(rdbs, redlock.WithRestartDelay(s.RestartDelay))
		}
		return redlock.New(rdbs)
	}
	return redislocker.New(rdbs[0])
}

func closeAll(rdbs []redis.UniversalClient) (err error) {
	for _, rdb := range rdbs {
		err = errors.Join(err, rdb.Close())
	}
	return err
}
