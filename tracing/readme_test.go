package tracing_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	"github.com/go-lockguard/guard/tracing"
)

func TestTheReadmeRuns(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:0"}) // never asked
	defer rdb.Close()
	setUp := func() error {
		obs, err := tracing.New()
		if err != nil {
			return err
		}
		g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"), guard.WithObserver(obs))
		if err != nil {
			return err
		}
		return g.Close(t.Context())
	}
	if err := setUp(); err != nil {
		t.Error(err)
	}
}
