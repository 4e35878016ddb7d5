package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// held is how long a section of the modes lasts.
const held = 5 * time.Millisecond

// crowd is what many callers do on one key.
type crowd struct {
	name  string
	limit int // of what may run at once beside no writer
	other guard.Option
	share int // of 100 calls, those with other
}

// modes prints how many sections a second each mode has, on one key, with 2
// processes of 25 callers.
func modes(ctx context.Context, open opener, length time.Duration, rounds int) error {
	for _, c := range []crowd{
		{name: "exclusive", limit: 1},
		{name: "4 permits", limit: 4, other: guard.WithPermits(4), share: 100},
		{name: "95 % readers", limit: locker.NoLimit, other: guard.WithShared(), share: 95},
	} {
		var all []int
		for range rounds {
			n, err := c.round(ctx, open, length)
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
func (c crowd) round(ctx context.Context, open opener, length time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	key := &floor{}
	var all sync.WaitGroup
	for range 2 {
		g, end, err := open.guard(25)
		if err != nil {
			return 0, err
		}
		defer end()
		defer all.Wait()
		other := g
		if c.other != nil {
			other = g.With(c.other)
		}
		for range 25 {
			all.Go(func() {
				for ctx.Err() == nil {
					mode, limit := other, c.limit
					if rand.N(100) >= c.share {
						mode, limit = g, 1
					}
					_ = mode.Do(ctx, "hot", func(context.Context) error {
						key.section(limit, func() { time.Sleep(held) })
						return nil
					})
				}
			})
		}
	}
	all.Wait()
	return key.rate(length)
}
