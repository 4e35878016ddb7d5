package show

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
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

	book *shop.RedisBook
}

// openStore starts the embedded Redis, or looks whether the one of the flags
// answers.
func openStore(ctx context.Context, cfg config, run string) (_ *store, err error) {
	s := &store{addr: cfg.redis, prefix: "flashsale:" + run}
	undo := s.shut
	defer func() {
		if err != nil {
			_ = undo()
		}
	}()
	if err = s.openRedis(ctx); err != nil {
		return nil, err
	}
	s.book = openBook(s.rdb, s.redis, s.prefix)
	undo = func() error { // a part of the book may be there, if only because somebody has interrupted us
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		return s.close(ctx)
	}
	if err = s.book.Create(ctx, cfg.stock); err != nil {
		return nil, fmt.Errorf("the book in Redis: %w", err)
	}
	return s, nil
}

func (s *store) openRedis(ctx context.Context) (err error) {
	if s.addr == "" {
		s.mini = miniredis.NewMiniRedis()
		s.mini.ClockTTL(true) // else no key would ever expire
		if err := s.mini.StartAddr("127.0.0.1:0"); err != nil {
			return fmt.Errorf("embedded Redis: %w", err)
		}
		s.addr, s.name = s.mini.Addr(), "embedded"
	}
	if s.redis, err = parseRedis(s.addr); err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	if s.name == "" {
		s.name = s.redis.name()
	}
	if s.redis.single != nil {
		s.redis.single.DialerRetries = 1 // a server that is not there is said to be so once, and at once
	}
	s.rdb = s.redis.open()
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("cannot use Redis %s: %w", s.name, err)
	}
	return nil
}

// openBook opens the book of a run. The parent has created it, or will.
func openBook(rdb redis.UniversalClient, e endpoint, run string) *shop.RedisBook {
	return &shop.RedisBook{RDB: rdb, Keys: shop.Keys(run), Replicated: e.replicated()}
}

// startBreaker puts something between the instances and this Redis that can cut
// it off. It is for a single server.
func (s *store) startBreaker(ctx context.Context) (*breaker, error) {
	opts := s.rdb.(*redis.Client).Options()
	return startBreaker(ctx, opts.Network, opts.Addr)
}

// close removes every key of this run, the guard's too, and ends the embedded
// Redis.
func (s *store) close(ctx context.Context) (err error) {
	if s.mini == nil {
		err = s.removeKeys(ctx)
	}
	return errors.Join(err, s.shut())
}

// shut closes what is open.
func (s *store) shut() (err error) {
	if s.rdb != nil {
		err = s.rdb.Close()
	}
	if s.mini != nil {
		s.mini.Close()
	}
	return err
}

func (s *store) removeKeys(ctx context.Context) (err error) {
	switch rdb := s.rdb.(type) {
	case *redis.ClusterClient:
		err = rdb.ForEachMaster(ctx, s.removeKeysAt)
	case *redis.Client:
		err = s.removeKeysAt(ctx, rdb)
	}
	if err != nil {
		return fmt.Errorf("the keys %s:* are left in Redis: %w", s.prefix, err)
	}
	return nil
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
