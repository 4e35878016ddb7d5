package redislocker

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	poolSize  = 16              // connections of the own client, per node
	dialLimit = 2 * time.Second // a longer dial would only keep others from dialing
	// ioLimit is for the client's own errands, as a handshake. A request ends
	// with its context, which is shorter.
	ioLimit      = dialLimit
	sentinelLife = 3 * time.Second  // of a connection that nobody would tell of a failover
	reload       = 10 * time.Second // how old a cluster client's map of slots may grow
)

// connect makes the client to use, which sends nothing yet.
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

// ownClient makes a client of the locker's own.
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

// newClient makes a client that leads where the locker's does.
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

// checkAsIs finds settings in a client of WithClient that would break the
// promises of the locker, as far as it can look.
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

// sentinelAddr is what go-redis has for the address of a Sentinel client.
const sentinelAddr = "FailoverClient"

// ownOptions takes from o how to reach the server and authenticate; how to use
// it is for the locker to say. MaxRetries and the like must be set, not left
// out: o holds what NewClient made of them, and 0 would mean the default again.
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
		DisableIdentity:          true, // one round trip less in a handshake that a try may have to wait for
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

// noMaintenance switches off pauses in which go-redis would stretch its time
// limits. The endpoint type is given so that go-redis does not resolve the
// server's name to find out.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{
		Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone,
	}
}
