package rig

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

// The first words of what [Connect] takes.
const (
	Sentinels = "sentinels "
	Cluster   = "cluster "
)

// Connect returns a client of the servers that to names. That is the address of
// a server, or one of the words above and addresses with commas between them.
func Connect(to string) redis.UniversalClient {
	if addrs, ok := strings.CutPrefix(to, Sentinels); ok {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redisproc.SentinelName, SentinelAddrs: strings.Split(addrs, ","),
		})
	}
	if addrs, ok := strings.CutPrefix(to, Cluster); ok {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(addrs, ",")})
	}
	return redis.NewClient(&redis.Options{Addr: to})
}
