package redisconn

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// The caller's options have been through NewClient, where -1 became 0. A copy
// of them would retry.
func TestOwnClientNeitherRetriesNorIgnoresDeadlines(t *testing.T) {
	for name, o := range map[string]*redis.Options{
		"defaults": {}, "no retries": {MaxRetries: -1}, "many": {MaxRetries: 9, ReadTimeout: -1, MinIdleConns: 5},
	} {
		theirs := redis.NewClient(o)
		ours := redis.NewClient(ownOptions(theirs.Options()))
		got := ours.Options()
		if got.MaxRetries != 0 || !got.ContextTimeoutEnabled || got.ReadTimeout != ioLimit || got.MinIdleConns != 0 ||
			got.Protocol != 2 || got.PoolSize != poolSize || got.DialTimeout > dialLimit {
			t.Errorf("%s: %+v", name, got)
		}
		_, _ = theirs.Close(), ours.Close()
	}
}

func TestConnectionsOfASentinelClientAreShortLived(t *testing.T) {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	defer func() { _ = rdb.Close() }()
	if d := ownOptions(rdb.Options()).ConnMaxLifetime; d != sentinelLife {
		t.Errorf("they live for %v, want %v", d, sentinelLife)
	}
}
