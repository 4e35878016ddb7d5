// Command bench compares guard on etcd with concurrency.Mutex of etcd's client,
// in alternating short rounds on one server that writes to its disk. Each
// locker and each client stands for a process, all in one.
//
//	go -C locker/etcdlocker/etcdtest run ./bench
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

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func main() {
	length := flag.Duration("round", 2*time.Second, "length of a round")
	rounds := flag.Int("rounds", 3, "rounds of each")
	leases := flag.Int("leases", 0, "instead hold so many leases of 10 s for half a minute")
	shared := flag.Bool("modes", false, "instead compare shared leases and permits with one at a time")
	flag.Parse()
	os.Exit(etcdtest.Main(func() int {
		if err := run(*length, *rounds, *leases, *shared); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}))
}

func run(length time.Duration, rounds, leases int, shared bool) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	members, err := etcdtest.NewCluster(context.Background(), 1, dir, etcdtest.Settings{Sync: true})
	for _, m := range members {
		defer m.Kill()
	}
	if err != nil {
		return err
	}
	addr := members[0].Addr
	if leases > 0 {
		return hold(addr, leases)
	}
	if shared {
		return modes(addr, length, rounds)
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
		m, err := c.round(addr, length, useMutex)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, n), append(theirs, m)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	mid := rounds / 2
	fmt.Printf("%-12s guard %v /s, concurrency.Mutex %v /s: %.1f x\n",
		c.name, ours, theirs, float64(ours[mid])/float64(max(1, theirs[mid])))
	return nil
}

// section runs f under the lock.
type section func(ctx context.Context, f func()) error

// use makes the sections of a process, and what closes them.
type use func(client *clientv3.Client, c contest, process int) ([]section, func(), error)

// round returns sections a second.
func (c contest) round(addr string, length time.Duration, u use) (int, error) {
	var sections []section
	for p := range c.processes {
		client, err := clientv3.New(etcdtest.Config(addr))
		if err != nil {
			return 0, err
		}
		defer client.Close()
		more, end, err := u(client, c, p)
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

func useGuard(client *clientv3.Client, c contest, process int) ([]section, func(), error) {
	g, err := guard.New(etcdlocker.New(client), guard.WithTTL(10*time.Second))
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

// useMutex gives each caller of a hot key a session, which is its fast form,
// and the callers of own keys one for all.
func useMutex(client *clientv3.Client, c contest, process int) ([]section, func(), error) {
	var sessions []*concurrency.Session
	end := func() {
		for _, s := range sessions {
			_ = s.Close()
		}
	}
	all := make([]section, c.callers)
	for i := range all {
		if !c.own || i == 0 {
			s, err := concurrency.NewSession(client, concurrency.WithTTL(10))
			if err != nil {
				return nil, end, err
			}
			sessions = append(sessions, s)
		}
		s := sessions[len(sessions)-1]
		name := "mutex/" + c.key(process, i)
		all[i] = func(ctx context.Context, f func()) error {
			m := concurrency.NewMutex(s, name)
			if err := m.Lock(ctx); err != nil {
				return err
			}
			f()
			return m.Unlock(context.WithoutCancel(ctx))
		}
	}
	return all, end, nil
}

// hold counts the leases that are lost in half a minute.
func hold(addr string, n int) error {
	client, err := clientv3.New(etcdtest.Config(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	g, err := guard.New(etcdlocker.New(client), guard.WithTTL(10*time.Second))
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
