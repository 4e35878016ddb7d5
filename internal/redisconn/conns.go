// Package redisconn decides over which connections a locker talks to Redis. It
// makes the locker's own client, finds the primary by the votes of the
// sentinels, and logs in on new connections. It leaves connections that are
// dead, and connections to a primary that was replaced.
//
// The package knows commands and names in Redis, and nothing of leases. Errors
// are those of go-redis, of the network and of contexts, and some of its own. A
// request without an answer may have been carried out.
package redisconn

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Conns are the connections of one locker. Its methods block for as long as
// their requests, at most until the context ends. They are safe for concurrent
// use.
//
// Invariant: own is set unless client is the caller's. tracker is nil unless
// the locker's own client is one for Sentinel.
type Conns struct {
	client  redis.UniversalClient
	own     bool                 // client is ours to close
	cluster *redis.ClusterClient // client, if it is one
	tracker *primaryTracker      // of the primary

	logins    *logins                  // of new connections
	loginHook *loginHook               // the one of client, if that is our own
	openings  perServer[*opening]      // of connections that tries wait for
	alone     perServer[chan struct{}] // of requests that have a connection alone
	batcher   *batcher

	// Trip is how long a round trip takes.
	Trip Trip
}

// New makes the connections for settings that [Settings.Check] has accepted. It
// sends nothing.
func New(s *Settings) *Conns {
	c := &Conns{}
	c.logins = newLogins(s.Name, s.Admit, &c.Trip)
	c.connect(s)
	c.cluster, _ = c.client.(*redis.ClusterClient)
	c.batcher = newBatcher(c.exchange, c.Trip.near)
	return c
}

// connect makes the client to use.
func (c *Conns) connect(s *Settings) {
	if s.AsIs != nil {
		c.client = s.AsIs
		return
	}
	c.client, c.own = c.ownClient(s), true
	for _, h := range s.Hooks {
		c.client.AddHook(h)
	}
	if rdb, ok := c.client.(*redis.Client); ok && rdb.Options().Addr == sentinelAddr {
		c.tracker = &primaryTracker{}
		c.client.AddHook(c.tracker)
	}
	if s.Sentinel != nil {
		c.tracker.sentinels = newSentinels(ofFailover(s.Sentinel), c.logins)
	}
}

// Close ends the dials and batches under way and closes the locker's own
// client. It must be called once, when no other call is under way. When
// go-redis 9.19 closes a connection, it takes away the time limit of a read
// under way, and then waits for this read.
func (c *Conns) Close() {
	c.logins.close()
	c.batcher.close()
	if c.tracker != nil && c.tracker.sentinels != nil {
		c.tracker.sentinels.close()
	}
	if c.own {
		_ = c.client.Close()
	}
}

// Own reports whether the client was made here, so that a login is no part of a
// request.
func (c *Conns) Own() bool { return c.own }

// Cluster reports whether the servers are a cluster.
func (c *Conns) Cluster() bool { return c.cluster != nil }

// Subscribe returns a subscription on a connection of its own. Without channels
// it sends nothing yet.
func (c *Conns) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return c.client.Subscribe(ctx, channels...)
}
