// Command bench compares guard on ZooKeeper with zk.Lock of the client, in
// alternating short rounds on one server that writes to its disk. Each locker
// and each connection stands for a process, all in one.
//
//	go -C locker/zookeeperlocker run ./bench
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

func main() {
	length := flag.Duration("round", 2*time.Second, "length of a round")
	rounds := flag.Int("rounds", 3, "rounds of each")
	leases := flag.Int("leases", 0, "instead hold so many leases of 10 s for half a minute")
	flag.Parse()
	if err := run(*length, *rounds, *leases); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(length time.Duration, rounds, leases int) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	servers, err := zktest.New(context.Background(), 1, dir, zktest.Settings{Sync: true})
	for _, s := range servers {
		defer s.Kill()
	}
	if err != nil {
		return err
	}
	addr := servers[0].Addr
	if leases > 0 {
		return hold(addr, leases)
	}
	for _, c := range []contest{
		{name: "hot 2 x 25", processes: 2, callers: 25},
		{name: "hot 8 x 1", processes: 8, callers: 1},
		{name: "hot 2 x 1", processes: 2, callers: 1},
		{name: "own keys 64", processes: 1, callers: 64, own: true},
	} {
		if err := c.print(addr, length, rounds); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// session is the timeout of sessions.
const session = 10 * time.Second

// contest is what callers do. They want one key, or each its own.
type contest struct {
	name               string
	processes, callers int
	own                bool
}

func (c contest) key(process, caller int) string {
	if !c.own {
		return "hot"
	}
	return guard.Key("own", process, caller)
}

// print runs the rounds, and prints sections a second.
func (c contest) print(addr string, length time.Duration, rounds int) error {
	var ours, theirs []int
	for range rounds {
		n, err := c.round(addr, length, useGuard)
		if err != nil {
			return err
		}
		m, err := c.round(addr, length, useLock)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, n), append(theirs, m)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	mid := rounds / 2
	fmt.Printf("%-12s guard %v /s, zk.Lock %v /s: %.1f x\n",
		c.name, ours, theirs, float64(ours[mid])/float64(max(1, theirs[mid])))
	return nil
}

// section runs f under the lock.
type section func(ctx context.Context, f func()) error

// use makes the sections of a process, and what closes them.
type use func(conn *zk.Conn, c contest, process int) ([]section, func(), error)

// round returns sections a second.
func (c contest) round(addr string, length time.Duration, u use) (int, error) {
	var sections []section
	for p := range c.processes {
		conn, err := zktest.Dial(session, addr)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		for conn.State() != zk.StateHasSession {
			time.Sleep(time.Millisecond)
		}
		more, end, err := u(conn, c, p)
		if err != nil {
			return 0, err
		}
		defer end()
		sections = append(sections, more...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var done, inside, beside atomic.Int64
	var all sync.WaitGroup
	for _, s := range sections {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = s(ctx, func() {
					if inside.Add(1) > 1 && !c.own {
						beside.Add(1)
					}
					done.Add(1)
					inside.Add(-1)
				})
			}
		})
	}
	all.Wait()
	if beside.Load() > 0 {
		return 0, errors.New("two sections ran at once")
	}
	return int(float64(done.Load()) / length.Seconds()), nil
}

func useGuard(conn *zk.Conn, c contest, process int) ([]section, func(), error) {
	g, err := guard.New(zookeeperlocker.New(conn), guard.WithTTL(10*time.Second))
	if err != nil {
		return nil, nil, err
	}
	all := make([]section, c.callers)
	for i := range all {
		key := c.key(process, i)
		all[i] = func(ctx context.Context, f func()) error {
			return g.Do(ctx, key, func(context.Context) error { f(); return nil })
		}
	}
	return all, func() { _ = g.Close(context.Background()) }, nil
}

// useLock waits for the lock even after the end of the round, because zk.Lock
// knows no ctx.
func useLock(conn *zk.Conn, c contest, process int) ([]section, func(), error) {
	all := make([]section, c.callers)
	for i := range all {
		path := "/lock/" + c.key(process, i)
		all[i] = func(_ context.Context, f func()) error {
			l := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
			if err := l.Lock(); err != nil {
				return err
			}
			f()
			return l.Unlock()
		}
	}
	return all, func() {}, nil
}

// hold counts the leases that are lost in half a minute.
func hold(addr string, n int) error {
	conn, err := zktest.Dial(session, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	g, err := guard.New(zookeeperlocker.New(conn), guard.WithTTL(10*time.Second))
	if err != nil {
		return err
	}
	ctx := context.Background()
	defer g.Close(ctx)
	leases := make([]*guard.Lease, n)
	start := time.Now()
	var all sync.WaitGroup
	turns := make(chan struct{}, 100)
	for i := range leases {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			l, err := g.Acquire(ctx, strconv.Itoa(i))
			if leases[i] = l; err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	all.Wait()
	fmt.Printf("%d leases acquired in %v\n", n, time.Since(start).Round(time.Millisecond))
	time.Sleep(30 * time.Second)
	lost := 0
	for _, l := range leases {
		if l == nil || l.Context().Err() != nil {
			lost++
		}
	}
	fmt.Printf("%d lost in 30 s\n", lost)
	for _, l := range leases {
		if l == nil {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			_ = l.Release(ctx)
		})
	}
	all.Wait()
	return nil
}
