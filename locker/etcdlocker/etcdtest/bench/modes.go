package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// held is how long a section of the modes lasts.
const held = 5 * time.Millisecond

// crowd is what many callers do on one key.
type crowd struct {
	name  string
	limit int64 // of what may run at once beside no writer
	other guard.Option
	share int // of 100 calls, those with other
}

// modes prints how many sections a second each mode has, on one key, with 2
// processes of 25 callers.
func modes(addr string, length time.Duration, rounds int) error {
	for _, c := range []crowd{
		{name: "exclusive", limit: 1},
		{name: "4 permits", limit: 4, other: guard.WithPermits(4), share: 100},
		{name: "95 % readers", limit: 1 << 20, other: guard.WithShared(), share: 95},
	} {
		var all []int
		for range rounds {
			n, err := c.round(addr, length)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			all = append(all, n)
		}
		slices.Sort(all)
		fmt.Printf("%-12s %v sections of %v a second\n", c.name, all, held)
	}
	return nil
}

// round returns sections a second.
func (c crowd) round(addr string, length time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var done, inside, writers, beside atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		client, err := clientv3.New(etcdtest.Config(addr))
		if err != nil {
			return 0, err
		}
		defer client.Close()
		g, err := guard.New(etcdlocker.New(client), guard.WithTTL(10*time.Second))
		if err != nil {
			return 0, err
		}
		defer g.Close(context.Background())
		other := g
		if c.other != nil {
			other = g.With(c.other)
		}
		for range 25 {
			all.Go(func() {
				for ctx.Err() == nil {
					mode, alone := other, int64(0)
					if rand.N(100) >= c.share {
						mode, alone = g, 1
					}
					_ = mode.Do(ctx, "hot", func(context.Context) error {
						if n, w := inside.Add(1), writers.Add(alone); n > c.limit || w > 0 && n > 1 {
							beside.Add(1)
						}
						time.Sleep(held)
						writers.Add(-alone)
						inside.Add(-1)
						done.Add(1)
						return nil
					})
				}
			})
		}
	}
	all.Wait()
	if beside.Load() > 0 {
		return 0, errors.New("more sections ran at once than may")
	}
	return int(float64(done.Load()) / length.Seconds()), nil
}
