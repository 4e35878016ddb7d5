package redislocker

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	poolSize  = 16              // connections of the own client, per node
	dialLimit = 2 * time.Second // a longer dial would only keep others from dialing
	// ioLimit is for the client's own requests, such as a handshake. Other
	// requests end with their context, which is shorter.
	ioLimit      = dialLimit
	sentinelLife = 3 * time.Second  // max age of a connection that hears of no failover
	reload       = 10 * time.Second // max age of a cluster client's map of slots
)

// connect makes the client to use. It sends nothing yet.
func (l *Locker) connect() error {
	s := &l.settings
	if s.given {
		l.client = s.asIs
		return nil
	}
	rdb, err := l.ownClient()
	if err != nil {
		return err
	}
	for _, h := range s.hooks {
		rdb.AddHook(h)
	}
	if c, ok := rdb.(*redis.Client); ok && c.Options().Addr == sentinelAddr {
		l.at = &whereabouts{}
		rdb.AddHook(l.at)
	}
	l.client, l.own = rdb, true
	return nil
}

// ownClient makes the locker's own client.
func (l *Locker) ownClient() (redis.UniversalClient, error) {
	s := &l.settings
	if s.sentinelGiven {
		o := ownFailoverOptions(s.sentinel)
		l.greeter = l.greeters.insteadFailover(o)
		c := redis.NewFailoverClient(o)
		c.AddHook(l.greeter)
		return c, nil
	}
	switch c := s.rdb.(type) {
	case *redis.Client:
		o := ownOptions(c.Options())
		l.greeter = l.greeters.instead(o)
		return l.newClient(o), nil
	case *redis.ClusterClient:
		o := ownClusterOptions(c.Options())
		l.greeter = l.greeters.insteadCluster(o)
		return l.newCluster(o), nil
	case *redis.Ring:
		return nil, errRing
	default:
		return nil, invalid("a client of type %T is unknown: pass one made for leases with WithClient", s.rdb)
	}
}

// newClient makes a client for the server of the locker's client.
func (l *Locker) newClient(o *redis.Options) *redis.Client {
	greeter := l.greeter
	if greeter == nil {
		greeter = l.greeters.instead(o)
	}
	c := redis.NewClient(o)
	c.AddHook(greeter)
	return c
}

// newCluster is newClient for a cluster.
func (l *Locker) newCluster(o *redis.ClusterOptions) *redis.ClusterClient {
	greeter := l.greeter
	if greeter == nil {
		greeter = l.greeters.insteadCluster(o)
	}
	o.NewClient = func(o *redis.Options) *redis.Client {
		c := redis.NewClient(o)
		c.AddHook(greeter)
		return c
	}
	return redis.NewClusterClient(o)
}

var errRing = invalid("a redis.Ring moves keys to other servers when one is down, so two could hold a key: use one " +
	"server, Sentinel or Cluster")

// checkAsIs finds settings of WithClient's client that would break the locker's
// promises. It knows only the client types of go-redis.
func checkAsIs(rdb redis.UniversalClient) error {
	var retries int
	var byContext bool
	switch c := rdb.(type) {
	case *redis.Client:
		retries, byContext = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		retries, byContext = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return errRing
	default:
		return nil
	}
	switch {
	case retries > 0:
		return invalid("the client of WithClient retries requests: set its MaxRetries to -1")
	case !byContext:
		return invalid("the client of WithClient ignores deadlines: set its ContextTimeoutEnabled")
	}
	return nil
}

// sentinelAddr is the address that go-redis reports for a Sentinel client.
const sentinelAddr = "FailoverClient"

// ownOptions takes from o how to reach the server and authenticate. All other
// settings are the locker's own. MaxRetries and similar settings must be set,
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
	return &redis.Options{
		Network: o.Network, Addr: o.Addr, NodeAddress: o.NodeAddress, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext:   o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		DB:                           o.DB, ClientName: o.ClientName,
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: life,

		MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: ioLimit, WriteTimeout: ioLimit, PoolTimeout: ioLimit,
		DialTimeout: min(o.DialTimeout, dialLimit), DialerRetries: 1,
		PoolSize: size, MaxIdleConns: poolSize, MaxConcurrentDials: poolSize, Protocol: 2, // no push notifications
		DisableIdentity:          true, // saves a round trip in a handshake that a try may wait for
		MaintNotificationsConfig: noMaintenance(),
	}
}

func ownClusterOptions(o *redis.ClusterOptions) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: o.Addrs, ClusterSlots: o.ClusterSlots, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext:   o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		ClientName:                   o.ClientName,
		ConnMaxIdleTime:              o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,

		MaxRetries: -1, MaxRedirects: max(o.MaxRedirects, 3), ContextTimeoutEnabled: true,
		ReadTimeout: ioLimit, WriteTimeout: ioLimit, PoolTimeout: ioLimit,
		DialTimeout: min(o.DialTimeout, dialLimit), DialerRetries: 1,
		PoolSize: poolSize, Protocol: 2, DisableIdentity: true,
		ClusterStateReloadInterval: reload,
		MaintNotificationsConfig:   noMaintenance(),
	}
}

// noMaintenance switches off the pauses in which go-redis would stretch its
// time limits. The endpoint type is set, because go-redis would otherwise
// resolve the server's name to find it.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{
		Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone,
	}
}
