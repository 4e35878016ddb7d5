package show

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/internal/redisdsn"
)

// store is the parent's own view of Redis and of the book: it fills the shelf
// before the sale and counts after it.
type store struct {
	addr   string // of Redis, as the instances need it
	name   string // as people may see it
	prefix string // of every key of this run
	redis  endpoint
	rdb    redis.UniversalClient
	mini   *miniredis.Miniredis // nil: a real server
	book   *shop.RedisBook
}

// openStore starts the embedded Redis, or looks whether the one of the flags
// answers, and fills the shelf.
func openStore(ctx context.Context, cfg config, run string) (_ *store, err error) {
	s := &store{addr: cfg.redis, prefix: "flashsale:" + run}
	if s.addr == "" {
		s.mini = miniredis.NewMiniRedis()
		s.mini.ClockTTL(true) // else no key would ever expire
		if err := s.mini.StartAddr("127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("embedded Redis: %w", err)
		}
		s.addr = s.mini.Addr()
	}
	if s.redis, err = parseRedis(s.addr); err != nil {
		return nil, fmt.Errorf("-redis: %w", err)
	}
	if s.name = s.redis.name(); s.mini != nil {
		s.name = "embedded"
	}
	if s.redis.Single != nil {
		s.redis.Single.DialerRetries = 1 // a server that is not there is said to be so once, and at once
	}
	s.rdb = s.redis.Client()
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		_ = s.shut()
		return nil, fmt.Errorf("cannot use Redis %s: %w", s.name, err)
	}
	s.book = s.redis.book(s.rdb, s.prefix)
	if err := s.book.Create(ctx, cfg.Stock); err != nil {
		// It may be there, if only because somebody has interrupted us.
		return nil, fmt.Errorf("the book in Redis: %w", errors.Join(err, s.close()))
	}
	return s, nil
}

// close removes every key of this run, the guard's too, and ends the embedded
// Redis.
func (s *store) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	switch rdb := s.rdb.(type) {
	case *redis.ClusterClient:
		err = rdb.ForEachMaster(ctx, s.removeKeysAt)
	case *redis.Client:
		err = s.removeKeysAt(ctx, rdb)
	}
	if err != nil {
		err = fmt.Errorf("%w: the keys %s:* are left in Redis: %w", errLeft, s.prefix, err)
	}
	return errors.Join(err, s.shut())
}

// errLeft says that something of a run may be left in Redis.
var errLeft = errors.New("not all of this run could be removed")

// shut closes what is open.
func (s *store) shut() error {
	err := s.rdb.Close()
	if s.mini != nil {
		s.mini.Close()
	}
	return err
}

// removeKeysAt removes the keys that one node has, one by one: in a cluster
// they are in many slots.
func (s *store) removeKeysAt(ctx context.Context, node *redis.Client) error {
	found := node.Scan(ctx, 0, s.prefix+":*", 1000).Iterator()
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for found.Next(ctx) {
			p.Unlink(ctx, found.Val())
		}
		return found.Err()
	})
	return err
}

// endpoint is how a Redis is reached.
type endpoint struct{ redisdsn.Options }

// errRedis shows no part of the address, because any may belong to a password.
var errRedis = errors.New("want host:port, redis://[user:password@]host:port/db, " +
	"redis+sentinel://host:port,host:port/master or redis+cluster://host:port,host:port, with rediss for TLS; " +
	"in users and passwords / ? # @ are written %2F %3F %23 %40")

// parseRedis reads an address. Nothing is sent twice, unless the address says
// so: a write without an answer may have been done.
func parseRedis(addr string) (endpoint, error) {
	if _, port, err := net.SplitHostPort(addr); err == nil && port != "" && !strings.ContainsAny(addr, "/@") {
		addr = "redis://" + addr
	}
	o, ok := redisdsn.Parse(addr)
	if !ok {
		return endpoint{}, errRedis
	}
	var retries *int
	switch {
	case o.Sentinel != nil:
		retries = &o.Sentinel.MaxRetries
	case o.Cluster != nil:
		retries = &o.Cluster.MaxRetries
	default:
		retries = &o.Single.MaxRetries
	}
	*retries = cmp.Or(*retries, -1)
	return endpoint{o}, nil
}

// name returns the address as people may see it.
func (e endpoint) name() string {
	switch {
	case e.Sentinel != nil:
		return e.Sentinel.MasterName + " of the Sentinels at " + strings.Join(e.Sentinel.SentinelAddrs, ", ")
	case e.Cluster != nil:
		return "Cluster at " + strings.Join(e.Cluster.Addrs, ", ")
	}
	return e.Single.Addr
}

// replicated says that writes are to be found on replicas too.
func (e endpoint) replicated() bool { return e.Single == nil }

// book returns the book of a run, which the parent creates.
func (e endpoint) book(rdb redis.UniversalClient, run string) *shop.RedisBook {
	return &shop.RedisBook{RDB: rdb, Prefix: run, Replicated: e.replicated()}
}
