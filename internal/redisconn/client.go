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
	if theirs := s.Sentinel; s.GivenSentinel {
		o := ownFailoverOptions(theirs)
		c.loginHook = c.logins.in(&redis.Options{
			Username: theirs.Username, Password: theirs.Password, DB: theirs.DB, ClientName: theirs.ClientName,
			CredentialsProvider:          theirs.CredentialsProvider,
			CredentialsProviderContext:   theirs.CredentialsProviderContext,
			StreamingCredentialsProvider: theirs.StreamingCredentialsProvider,
		}, o.DialTimeout)
		rdb := redis.NewFailoverClient(o)
		rdb.AddHook(c.loginHook)
		return rdb
	}
	if rdb, ok := s.Client.(*redis.ClusterClient); ok {
		theirs := rdb.Options()
		o := ownClusterOptions(theirs)
		c.loginHook = c.logins.in(&redis.Options{
			Username: theirs.Username, Password: theirs.Password, ClientName: theirs.ClientName,
			CredentialsProvider:          theirs.CredentialsProvider,
			CredentialsProviderContext:   theirs.CredentialsProviderContext,
			StreamingCredentialsProvider: theirs.StreamingCredentialsProvider,
		}, o.DialTimeout)
		c.loginHook.cluster, o.NewClient = true, c.newClient
		return redis.NewClusterClient(o)
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

// ownOptions takes from o how to reach the server. A loginHook logs in; a
// streaming provider does so anew later on. All other settings are the locker's
// own. MaxRetries and similar settings must be set,
// not left out. NewClient has replaced the zeros in o, and a 0 would mean the
// default again.
func ownOptions(o *redis.Options) *redis.Options {
	life := o.ConnMaxLifetime
	if o.Addr == sentinelAddr && (life <= 0 || life > sentinelLife) {
		life = sentinelLife
	}
	size := poolSize
	if o.Addr == sentinelAddr {
		size = patientPool
	}
	return onePool(&redis.Options{
		Network: o.Network, Addr: o.Addr, NodeAddress: o.NodeAddress, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		ConnMaxIdleTime:              lockerkit.IdleTime(o.ConnMaxIdleTime), ConnMaxLifetime: life,

		MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: ioLimit, WriteTimeout: ioLimit, PoolTimeout: ioLimit,
		DialTimeout: min(o.DialTimeout, dialLimit), DialerRetries: 1,
		PoolSize: size, MaxIdleConns: poolSize, MaxConcurrentDials: poolSize, Protocol: 2, // no push notifications
		DisableIdentity:          true, // saves a round trip in a handshake that a try may wait for
		MaintNotificationsConfig: noMaintenance(),
	})
}

func ownClusterOptions(o *redis.ClusterOptions) *redis.ClusterOptions {
	return onePool(&redis.ClusterOptions{
		Addrs: o.Addrs, ClusterSlots: o.ClusterSlots, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		ConnMaxIdleTime:              lockerkit.IdleTime(o.ConnMaxIdleTime), ConnMaxLifetime: o.ConnMaxLifetime,

		MaxRetries: -1, MaxRedirects: max(o.MaxRedirects, 3), ContextTimeoutEnabled: true,
		ReadTimeout: ioLimit, WriteTimeout: ioLimit, PoolTimeout: ioLimit,
		DialTimeout: min(o.DialTimeout, dialLimit), DialerRetries: 1,
		PoolSize: poolSize, Protocol: 2, DisableIdentity: true,
		ClusterStateReloadInterval: Reload,
		MaintNotificationsConfig:   noMaintenance(),
	})
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
