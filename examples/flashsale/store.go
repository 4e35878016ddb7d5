package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// sku is the one item of the sale.
const sku = "lamp"

// shopKeys names the shop's keys in Redis: a prefix of this run, and one hash tag, so that a script may use them together.
type shopKeys string

func (k shopKeys) stock(sku string) string  { return k.key(sku, "stock") }
func (k shopKeys) orders(sku string) string { return k.key(sku, "orders") }
func (k shopKeys) token(sku string) string  { return k.key(sku, "token") }
func (k shopKeys) late(sku string) string   { return k.key(sku, "late") }

func (k shopKeys) key(sku, what string) string { return string(k) + ":{" + sku + "}:" + what }

// store is the parent's own view of Redis: it fills the shelf before the sale and counts after it.
type store struct {
	addr   string // as the instances need it
	name   string // as people may see it
	prefix string // of every key of this run
	keys   shopKeys
	rdb    *redis.Client
	mini   *miniredis.Miniredis // nil: a real server
}

// openStore starts the embedded Redis, or looks whether the one at addr answers.
func openStore(ctx context.Context, addr, run string) (*store, error) {
	s := &store{addr: addr, prefix: "flashsale:" + run}
	s.keys = shopKeys(s.prefix)
	if addr == "" {
		s.mini = miniredis.NewMiniRedis()
		s.mini.ClockTTL(true) // else no key would ever expire
		if err := s.mini.StartAddr("127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("embedded Redis: %w", err)
		}
		s.addr, s.name = s.mini.Addr(), "embedded"
	}
	opts, err := redisOptions(s.addr)
	if err != nil {
		return nil, err
	}
	if s.name == "" {
		s.name = opts.Addr // a URL may hold a password
	}
	opts.MaxRetries, opts.DialerRetries = -1, 1 // a server that is not there is said to be so once, and at once
	s.rdb = redis.NewClient(opts)
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		s.rdb.Close()
		if s.mini != nil {
			s.mini.Close()
		}
		return nil, fmt.Errorf("no Redis at %s: %w", s.name, err)
	}
	return s, nil
}

// fill puts the stock on the shelf.
func (s *store) fill(ctx context.Context, stock int) error {
	return s.rdb.Set(ctx, s.keys.stock(sku), stock, 0).Err()
}

// stock returns what is left.
func (s *store) stock(ctx context.Context) (int, error) {
	return s.rdb.Get(ctx, s.keys.stock(sku)).Int()
}

// count returns what is left, the order book and the number of late writes refused.
func (s *store) count(ctx context.Context) (left int, orders []string, late int, err error) {
	if left, err = s.stock(ctx); err != nil {
		return 0, nil, 0, err
	}
	if orders, err = s.rdb.LRange(ctx, s.keys.orders(sku), 0, -1).Result(); err != nil {
		return 0, nil, 0, err
	}
	text, err := s.rdb.Get(ctx, s.keys.late(sku)).Result()
	if errors.Is(err, redis.Nil) {
		return left, orders, 0, nil
	}
	if err == nil {
		late, err = strconv.Atoi(text)
	}
	return left, orders, late, err
}

// glance returns what is left, and how many orders and refused late writes there are, all at one moment.
func (s *store) glance(ctx context.Context) (left, orders, late int, err error) {
	var stock, refused *redis.StringCmd
	var book *redis.IntCmd
	_, err = s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		stock, book, refused = p.Get(ctx, s.keys.stock(sku)), p.LLen(ctx, s.keys.orders(sku)), p.Get(ctx, s.keys.late(sku))
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nothing was refused yet
		return 0, 0, 0, err
	}
	left, err = stock.Int()
	late, _ = refused.Int()
	return left, int(book.Val()), late, err
}

// startBreaker puts something between the instances and this Redis that can cut it off.
func (s *store) startBreaker(ctx context.Context) (*breaker, error) {
	opts := s.rdb.Options()
	return startBreaker(ctx, opts.Network, opts.Addr)
}

// close deletes every key of this run, the guard's too, and ends the embedded Redis.
func (s *store) close(ctx context.Context) error {
	defer s.rdb.Close()
	if s.mini != nil {
		s.mini.Close()
		return nil
	}
	var keys []string
	found := s.rdb.Scan(ctx, 0, s.prefix+":*", 1000).Iterator()
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	if len(keys) > 0 {
		s.rdb.Unlink(ctx, keys...)
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("the keys %s:* are left in Redis: %w", s.prefix, err)
	}
	return nil
}
