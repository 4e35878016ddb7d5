//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard"
)

const (
	payEvery = 1500 * time.Millisecond // after which calls want new keys
	keepFor  = 30 * time.Second        // a result; longer than any call comes back to its key
)

var errDeclined = errors.New("declined")

// payments wants results until ctx ends. All processes want the same keys for a
// while, and then others. Keys with an odd number are paid at most once. One
// function in 20 fails, and one in 20 takes longer than its lease may last.
func payments(ctx context.Context, g *guard.Guard, s workerSettings, tell tell) {
	once := g.With(guard.WithAtMostOnce())
	for ctx.Err() == nil {
		key := int(time.Now().UnixMilli()/payEvery.Milliseconds())*keys + rand.N(keys)
		g, limit := g, 0
		if key%2 == 1 {
			g, limit = once, 1
		}
		result, err := guard.Once(ctx, g, guard.Key("pay", key), keepFor, func(ctx context.Context) (uint64, error) {
			tell("run", key, limit, 0)
			hold := time.Millisecond
			if rand.N(20) == 0 {
				hold = rand.N(2 * s.TTL)
			}
			select {
			case <-time.After(hold):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			if rand.N(20) == 0 {
				return 0, errDeclined
			}
			return rand.Uint64(), nil
		})
		if err == nil {
			tell("result", key, limit, result)
		} else {
			time.Sleep(10 * time.Millisecond)
		}
	}
}
