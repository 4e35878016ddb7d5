package redislocker

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// WithSentinel gives the locker a client of its own for Sentinel, which hears of every failover (+switch-master) and leaves
// the old primary at once, and which goes to the server that most sentinels call the primary: one of them may be seconds
// behind the others, and what it names may still take writes. Name all sentinels in o, at least three. o is what the caller's client was made of: from there the locker takes how to reach and
// authenticate with sentinels and servers. The client given to [New] is not used then, and may be nil.
//
// Without this option a client made by redis.NewFailoverClient works too, but does not tell others of a failover: the
// locker then leaves its connections every 3 s.
func WithSentinel(o *redis.FailoverOptions) Option {
	return optionFunc(func(s *settings) { s.sentinel, s.sentinelGiven = o, true })
}

// checkSentinel says what is wrong with the options of WithSentinel.
func (s *settings) checkSentinel() error {
	switch {
	case s.sentinel == nil:
		return invalid("the options of WithSentinel are nil")
	case s.sentinel.MasterName == "":
		return invalid("the options of WithSentinel have no MasterName")
	case len(s.sentinel.SentinelAddrs) == 0:
		return invalid("the options of WithSentinel have no SentinelAddrs")
	case s.sentinel.ReplicaOnly:
		return invalid("the options of WithSentinel are ReplicaOnly: leases are kept by the primary")
	}
	return nil
}

// ownFailoverOptions takes from o how to reach sentinels and servers, as ownOptions does.
func ownFailoverOptions(o *redis.FailoverOptions) *redis.FailoverOptions {
	dial := dialLimit
	if o.DialTimeout > 0 {
		dial = min(o.DialTimeout, dialLimit)
	}
	return &redis.FailoverOptions{
		MasterName: o.MasterName, SentinelAddrs: o.SentinelAddrs,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext:   o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		DB:                           o.DB, ClientName: o.ClientName,
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,

		MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: ioLimit, WriteTimeout: ioLimit, PoolTimeout: ioLimit,
		DialTimeout: dial, DialerRetries: 1,
		PoolSize: patientPool, MaxIdleConns: poolSize, MaxConcurrentDials: poolSize, Protocol: 2, DisableIdentity: true,
	}
}

// patientPool is the pool of a Sentinel client. After as many failed dials in a row, go-redis tries only once a second: the
// outage of a failover must not get there. What the locker sends at once bounds the connections.
const patientPool = 8192

// whereabouts is a hook that notes which server the newest connection of a Sentinel client leads to, or that there is none.
type whereabouts struct {
	sentinels *sentinels // that decide where a connection may lead; nil: the one that go-redis has asked does
	addr      atomic.Pointer[string]
}

// now returns the server's address; "" before the first connection.
func (w *whereabouts) now() string {
	if addr := w.addr.Load(); addr != nil {
		return *addr
	}
	return ""
}

// DialHook is asked by go-redis, as the others are.
func (w *whereabouts) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if w.sentinels != nil {
			conn, err = w.sentinels.lead(ctx, network, conn, err)
		}
		if errors.Is(err, redis.Nil) {
			return nil, noPrimaryError{}
		}
		if err == nil {
			if at := conn.RemoteAddr().String(); at != w.now() {
				w.addr.Store(&at)
			}
		}
		return conn, err
	}
}

// noPrimaryError is what the sentinels answer to a name that they do not know. go-redis has redis.Nil for it, which would look
// like the server's answer to the request: that somebody else holds the key.
type noPrimaryError struct{}

func (noPrimaryError) Error() string {
	return "the sentinels know no primary of that name: see MasterName in the options of the client"
}

// RedisError makes it an answer, not a failure of the network.
func (noPrimaryError) RedisError() {}

func (w *whereabouts) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (w *whereabouts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
