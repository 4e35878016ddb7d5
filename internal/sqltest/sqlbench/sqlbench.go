// Package sqlbench measures locks in short rounds. All processes are simulated
// in one: each has a guard, a locker and a database handle of its own.
package sqlbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

const leaseTTL = 10 * time.Second

// Contest is what callers do. They want one key, or each its own.
type Contest struct {
	Name               string
	Processes, Callers int // callers of each process
	Own                bool
}

// Contests are those of every store.
var Contests = []Contest{
	{Name: "hot 2 x 25", Processes: 2, Callers: 25},
	{Name: "hot 8 x 1", Processes: 8, Callers: 1},
	{Name: "hot 2 x 1", Processes: 2, Callers: 1},
	{Name: "own keys 64", Processes: 1, Callers: 64, Own: true},
}

// Key is what a caller of a process wants.
func (c Contest) Key(process, caller int) string {
	if !c.Own {
		return "hot"
	}
	return guard.Key("own", process, caller)
}

// Process runs sections under a lock.
type Process struct {
	Section func(ctx context.Context, key string, f func()) error
	Close   func()
}

// Rival is a lock. Start makes a process for so many callers.
type Rival struct {
	Name  string
	Start func(callers int) (Process, error)
}

// Guard is guard with a locker of open for each process. end is called after
// its guard is closed.
func Guard(open func() (l locker.Locker, end func(), err error)) Rival {
	return Rival{"guard", func(int) (Process, error) {
		l, end, err := open()
		if err != nil {
			return Process{}, err
		}
		g, err := guard.New(l, guard.WithTTL(leaseTTL), guard.WithLogger(slog.New(slog.DiscardHandler)))
		return Process{
			func(ctx context.Context, key string, f func()) error {
				return g.Do(ctx, key, func(context.Context) error { f(); return nil })
			},
			func() {
				_ = g.Close(context.Background())
				end()
			},
		}, err
	}}
}

// Print runs rounds of each rival in turn, and prints the sections a second of
// each round.
func (c Contest) Print(length time.Duration, rounds int, rivals ...Rival) error {
	figures := make([][]int, len(rivals))
	for range rounds {
		for i, r := range rivals {
			n, err := c.round(length, r)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", c.Name, r.Name, err)
			}
			figures[i] = append(figures[i], n)
		}
	}
	fmt.Printf("%-12s", c.Name)
	for i, r := range rivals {
		slices.Sort(figures[i])
		fmt.Printf(" %s %v /s", r.Name, figures[i])
	}
	fmt.Println()
	return nil
}

// round returns sections a second.
func (c Contest) round(length time.Duration, r Rival) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var done, inside, beside atomic.Int64
	var all sync.WaitGroup
	for p := range c.Processes {
		process, err := r.Start(c.Callers)
		if err != nil {
			cancel()
			return 0, err
		}
		defer process.Close()
		defer all.Wait()
		for caller := range c.Callers {
			key := c.Key(p, caller)
			all.Go(func() {
				for ctx.Err() == nil {
					_ = process.Section(ctx, key, func() {
						if inside.Add(1) > 1 && !c.Own {
							beside.Add(1)
						}
						done.Add(1)
						inside.Add(-1)
					})
				}
			})
		}
	}
	all.Wait()
	if beside.Load() > 0 {
		return 0, errors.New("two sections ran at once")
	}
	return int(float64(done.Load()) / length.Seconds()), nil
}

// Hold holds n leases of 10 s for half a minute, and prints how many are lost.
func Hold(l locker.Locker, n int) error {
	ctx := context.Background()
	g, err := guard.New(l, guard.WithTTL(leaseTTL), guard.WithMaxHold(time.Hour), guard.WithMaxWait(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close(ctx)
	leases, start := make([]*guard.Lease, n), time.Now()
	each(leases, func(i int) {
		lease, err := g.Acquire(ctx, strconv.Itoa(i))
		if leases[i] = lease; err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	fmt.Printf("%d leases acquired in %v\n", n, time.Since(start).Round(time.Millisecond))
	time.Sleep(30 * time.Second)
	lost := 0
	for _, l := range leases {
		if l == nil || l.Context().Err() != nil {
			lost++
		}
	}
	fmt.Printf("%d lost in 30 s\n", lost)
	each(leases, func(i int) {
		if leases[i] != nil {
			_ = leases[i].Release(ctx)
		}
	})
	return nil
}

// each calls f for every lease, 100 at a time.
func each(leases []*guard.Lease, f func(i int)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, 100)
	for i := range leases {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			f(i)
		})
	}
	all.Wait()
}
