package main

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

const (
	lockName = "ab:lock"
	ttl      = 10 * time.Second
	longest  = time.Minute // that a request may wait
)

// kind is one way to keep requests apart. open makes it for an instance.
type kind struct {
	name string
	open func(rdb *redis.Client) (lock func(http.Handler) http.Handler, closeLock func(), err error)
}

var kinds = []kind{
	{"none", func(*redis.Client) (func(http.Handler) http.Handler, func(), error) {
		return func(h http.Handler) http.Handler { return h }, func() {}, nil
	}},
	{"SETNX, spinning", byHand(0)},
	{"SETNX, sleep 10 ms", byHand(10 * time.Millisecond)},
	{"SETNX, sleep 100 ms", byHand(100 * time.Millisecond)},
	{"redislock", withRedislock},
	{"guard", withGuard},
}

type opener = func(rdb *redis.Client) (func(http.Handler) http.Handler, func(), error)

// deleteOwn deletes the lock of its owner, so that nobody deletes another's.
var deleteOwn = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end`)

// byHand is the lock of a hundred articles: SET NX with a TTL, a pause between
// tries, and a script that deletes it.
func byHand(pause time.Duration) opener {
	return func(rdb *redis.Client) (func(http.Handler) http.Handler, func(), error) {
		return func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				owner := rand.Text()
				for {
					got, err := rdb.SetNX(r.Context(), lockName, owner, ttl).Result()
					if err != nil {
						http.Error(w, err.Error(), http.StatusServiceUnavailable)
						return
					}
					if got {
						break
					}
					time.Sleep(pause)
				}
				ctx := context.WithoutCancel(r.Context())
				defer func() { _ = deleteOwn.Run(ctx, rdb, []string{lockName}, owner).Err() }()
				h.ServeHTTP(w, r)
			})
		}, func() {}, nil
	}
}

// withRedislock waits as the examples of redislock do.
func withRedislock(rdb *redis.Client) (func(http.Handler) http.Handler, func(), error) {
	locks := redislock.New(rdb)
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), longest)
			defer cancel()
			lock, err := locks.Obtain(ctx, lockName, ttl, &redislock.Options{
				RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
			})
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			defer func() { _ = lock.Release(context.WithoutCancel(r.Context())) }()
			h.ServeHTTP(w, r)
		})
	}, func() {}, nil
}

func withGuard(rdb *redis.Client) (func(http.Handler) http.Handler, func(), error) {
	g, err := guard.New(redislocker.New(rdb), guard.WithMaxWait(longest))
	if err != nil {
		return nil, nil, err
	}
	return lockmw.Static(g, lockName), func() { _ = g.Close(context.Background()) }, nil
}
