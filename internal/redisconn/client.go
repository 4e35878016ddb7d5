package redisconn

import (
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

const (
	poolSize  = 16              // connections of the own client, per node
	dialLimit = 2 * time.Second // a longer dial would only keep others from dialing
	// ioLimit is for the client's own requests, such as a handshake. Other
	// requests end with their context, which is shorter.
	ioLimit      = dialLimit
	sentinelLife = 3 * time.Second // max age of a connection that hears of no failover
	// Reload is the max age of a cluster client's map of slots.
	Reload = 10 * time.Second
)

// ownClient makes the locker's own client.
func (c *Conns) ownClient(s *Settings) redis.UniversalClient {
	if s.Sentinel != nil {
		u := ofFailover(s.Sentinel)
		o := own(u).Failover()
		o.PoolSize = patientPool
		c.loginHook = c.logins.in(u.Simple(), o.DialTimeout)
		rdb := redis.NewFailoverClient(onePool(o))
		rdb.AddHook(c.loginHook)
		return rdb
	}
	if rdb, ok := s.Client.(*redis.ClusterClient); ok {
		theirs := rdb.Options()
		u := ofCluster(theirs)
		o := own(u).Cluster()
		o.ClusterSlots, o.ClusterStateReloadInterval = theirs.ClusterSlots, Reload
		c.loginHook = c.logins.in(u.Simple(), o.DialTimeout)
		c.loginHook.cluster, o.NewClient = true, c.newClient
		return redis.NewClusterClient(onePool(o))
	}
	theirs := s.Client.(*redis.Client).Options() // Check knows no other type
	o := ownOptions(theirs)
	c.loginHook = c.logins.in(theirs, o.DialTimeout)
	return c.newClient(o)
}

// newClient makes a client whose connections are logged in by c.loginHook.
func (c *Conns) newClient(o *redis.Options) *redis.Client {
	rdb := redis.NewClient(o)
	rdb.AddHook(c.loginHook)
	return rdb
}

// sentinelAddr is the address that go-redis reports for a Sentinel client.
const sentinelAddr = "FailoverClient"

// ofCluster takes from o how to reach servers and log in.
func ofCluster(o *redis.ClusterOptions) redis.UniversalOptions {
	return redis.UniversalOptions{
		Addrs: o.Addrs, Dialer: o.Dialer, TLSConfig: o.TLSConfig, MaxRedirects: o.MaxRedirects,
		DialTimeout:     min(o.DialTimeout, dialLimit),
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,
		Username: o.Username, Password: o.Password, ClientName: o.ClientName,
		CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
	}
}

// own are the settings of a client of ours that reaches the same servers. A
// loginHook logs in; a streaming provider does so anew later on. All other
// settings are the locker's own. MaxRetries and similar settings must be set,
// not left out. NewClient has replaced the zeros in the caller's options, and a
// 0 would mean the default again.
func own(theirs redis.UniversalOptions) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: theirs.Addrs, MasterName: theirs.MasterName,
		SentinelUsername: theirs.SentinelUsername, SentinelPassword: theirs.SentinelPassword,
		Dialer: theirs.Dialer, TLSConfig: theirs.TLSConfig, MaxRedirects: max(theirs.MaxRedirects, 3),
		StreamingCredentialsProvider: theirs.StreamingCredentialsProvider,
		ConnMaxIdleTime:              lockerkit.IdleTime(theirs.ConnMaxIdleTime),
		ConnMaxLifetime:              theirs.ConnMaxLifetime,

		MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: ioLimit, WriteTimeout: ioLimit, PoolTimeout: ioLimit,
		DialTimeout: theirs.DialTimeout, DialerRetries: 1,
		PoolSize: poolSize, MaxIdleConns: poolSize, MaxConcurrentDials: poolSize, Protocol: 2, // no push notifications
		DisableIdentity:          true, // saves a round trip in a handshake that a try may wait for
		MaintNotificationsConfig: noMaintenance(),
	}
}

// ownOptions are those of a client for one server, or for the Sentinel client
// of a caller.
func ownOptions(theirs *redis.Options) *redis.Options {
	o := own(redis.UniversalOptions{
		Addrs: []string{theirs.Addr}, Dialer: theirs.Dialer, TLSConfig: theirs.TLSConfig,
		StreamingCredentialsProvider: theirs.StreamingCredentialsProvider,
		ConnMaxIdleTime:              theirs.ConnMaxIdleTime, ConnMaxLifetime: theirs.ConnMaxLifetime,
		DialTimeout: min(theirs.DialTimeout, dialLimit),
	}).Simple()
	o.Network, o.NodeAddress = theirs.Network, theirs.NodeAddress
	if o.Addr == sentinelAddr {
		o.PoolSize = patientPool
		if o.ConnMaxLifetime <= 0 || o.ConnMaxLifetime > sentinelLife {
			o.ConnMaxLifetime = sentinelLife
		}
	}
	return onePool(o)
}

// onePool makes a client send pipelines over the connections of all other
// requests, which tries wait for, see [Conns.Ready]. Newer versions of go-redis
// have a second pool for pipelines. Its connections would be opened within a
// request's time, which is too short if the server is far away. The oldest
// version that go.mod allows does not have the field.
func onePool[O any](o *O) *O {
	if size := reflect.ValueOf(o).Elem().FieldByName("PipelinePoolSize"); size.IsValid() {
		size.SetInt(-1)
	}
	return o
}

// noMaintenance switches off the pauses in which go-redis would stretch its
// time limits. The endpoint type is set, because go-redis would otherwise
// resolve the server's name to find it.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{
		Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone,
	}
}
