// Package redislock has the API of github.com/bsm/redislock over a guard, for
// code that moves. Change the import, put arguments of Obtain that call
// functions into variables, and then let go fix -inline of Go 1.26 write each
// Obtain as guard's Acquire:
//
//	lock, err := locks.Obtain(ctx, "lock:"+sku, 10*time.Second, nil)
//	lock, err := locks.Guard.With(redislock.As(10*time.Second, nil)...).Acquire(ctx, "lock:"+sku)
//
// Keys have the names that they had, so old and new processes exclude each
// other. What differs from redislock:
//
//   - A lock is renewed until it is released, for at most MaxHold (60 s). So
//     there is no Refresh and no TTL: delete the code around them. The time
//     given to Obtain is how long a crash blocks others.
//   - Waiters are served in order. A strategy says only for how long they wait.
//   - Errors are compared by errors.Is. Replace == first, because it finds no
//     [ErrNotObtained] and takes a lock that is held for a failure.
//   - There is no ObtainMulti, Token or Metadata.
package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The errors of redislock, as guard has them.
var (
	ErrNotObtained = guard.ErrNotAcquired
	ErrLockNotHeld = guard.ErrLeaseLost
)

// Lock is a lock that was obtained.
//
//go:fix inline
type Lock = guard.Lease

// Client obtains locks. Its methods are safe for concurrent use.
type Client struct{ Guard *guard.Guard }

// New returns a client for the server and database of the old locks. Each
// process makes one, because its locks share connections and waiters, and ends
// it by c.Guard.Close. New sends nothing. New panics if rdb is a client that
// redislocker.New refuses.
func New(rdb redis.UniversalClient) *Client {
	asItIs := func(key string) string { return key }
	g, err := guard.New(redislocker.New(rdb, redislocker.WithKeyNames(asItIs)))
	if err != nil {
		panic(err)
	}
	return &Client{g}
}

// Obtain waits for key as opt says, with the errors of [guard.Guard.Acquire].
//
//go:fix inline
func (c *Client) Obtain(ctx context.Context, key string, ttl time.Duration, opt *Options) (*guard.Lease, error) {
	return c.Guard.With(As(ttl, opt)...).Acquire(ctx, key)
}

// Options say for how long Obtain waits. A nil *Options makes one attempt.
type Options struct{ RetryStrategy RetryStrategy }

// As returns the options of a guard for those of Obtain. A ttl below 100 ms is
// 100 ms.
func As(ttl time.Duration, opt *Options) []guard.Option {
	ttl = max(ttl.Round(time.Millisecond), 100*time.Millisecond)
	wait := time.Duration(0)
	if opt != nil && opt.RetryStrategy.tries != 0 {
		if wait = ttl; opt.RetryStrategy.tries > 0 {
			wait = max(time.Duration(opt.RetryStrategy.tries)*opt.RetryStrategy.pause, time.Millisecond)
		}
	}
	return []guard.Option{guard.WithTTL(ttl), guard.WithMaxWait(wait)}
}

// RetryStrategy says for how long a call waits. The zero RetryStrategy makes
// one attempt.
type RetryStrategy struct {
	pause time.Duration
	tries int // below 0: as long as the ttl
}

// NoRetry makes one attempt.
func NoRetry() RetryStrategy { return RetryStrategy{} }

// LinearBackoff waits for as long as the ttl, or as [LimitRetry] says.
func LinearBackoff(pause time.Duration) RetryStrategy { return RetryStrategy{pause, -1} }

// ExponentialBackoff is LinearBackoff with the longer of the pauses.
func ExponentialBackoff(_, longest time.Duration) RetryStrategy { return LinearBackoff(longest) }

// LimitRetry waits for as long as n pauses of s.
func LimitRetry(s RetryStrategy, n int) RetryStrategy { return RetryStrategy{s.pause, max(n, 0)} }
