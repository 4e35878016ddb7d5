package libs

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// client returns a go-redis client of the servers with go-redis's own defaults.
// It sends nothing.
func (s *Setup) client() redis.UniversalClient {
	switch s.Topology {
	case Sentinel:
		return redis.NewFailoverClient(s.failover())
	case Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addrs, Dialer: s.Dial})
	}
	return s.clientOf(s.Addrs[0])
}

func (s *Setup) failover() *redis.FailoverOptions {
	return &redis.FailoverOptions{MasterName: s.Master, SentinelAddrs: s.Addrs, Dialer: s.Dial}
}

func (s *Setup) clientOf(addr string) redis.UniversalClient {
	return redis.NewClient(&redis.Options{Addr: addr, Dialer: s.Dial})
}

// clients returns one client for each independent server, or one for all.
func (s *Setup) clients() (rdbs []redis.UniversalClient) {
	if s.Topology != Redlock {
		return []redis.UniversalClient{s.client()}
	}
	for _, addr := range s.Addrs {
		rdbs = append(rdbs, s.clientOf(addr))
	}
	return rdbs
}

// waitFor bounds ctx by wait. If wait is 0 there is a single try, which is
// bounded by once.
func waitFor(ctx context.Context, wait, once time.Duration) (context.Context, context.CancelFunc) {
	if wait <= 0 {
		wait = once
	}
	return context.WithTimeout(ctx, wait)
}
