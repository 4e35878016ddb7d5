package durations

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const (
	three  = 3
	second = time.Second
)

func reported() {
	_ = guard.WithMaxWait(3)             // want `3 in WithMaxWait is in nanoseconds: give it a unit, such as time.Second`
	_ = guard.WithMaxHold(60)            // want `60 in WithMaxHold is in nanoseconds`
	_ = guard.WithTTL(10_000)            // want `10_000 in WithTTL is in nanoseconds`
	_ = guard.WithMinHold(three)         // want `three in WithMinHold is in nanoseconds`
	_ = guard.WithMinHold(2 * 60)        // want `2 \* 60 in WithMinHold is in nanoseconds`
	_ = guard.WithBackoff(5, 250)        // want `5 in WithBackoff is in nanoseconds` `250 in WithBackoff is in nanoseconds`
	_ = redislocker.WithReplicas(1, 100) // want `100 in WithReplicas is in nanoseconds`
}

func fine(d time.Duration, n int, rdb *redis.Client) {
	_ = guard.WithMaxWait(0)
	_ = guard.WithMaxWait(3 * time.Second)
	_ = guard.WithMaxWait(second)
	_ = guard.WithMaxWait(time.Duration(n) * time.Second)
	_ = guard.WithMaxWait(d)
	_ = guard.WithMaxWait(d / 2)
	_ = guard.WithMaxWaiters(100)
	time.Sleep(3)
	_ = redislocker.New(rdb)
}
