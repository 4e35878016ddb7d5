// Command bench compares guard on PostgreSQL with pg_advisory_xact_lock, in
// alternating short rounds on one server that writes to its disk. Each locker
// and each pool stands for a process, all in one.
//
//	go -C locker/postgreslocker run ./bench
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/locker/postgreslocker"
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
	server, err := sqltest.StartPostgreSQL("fsync=on", "shared_buffers=128MB", "max_connections=300")
	if err != nil {
		return err
	}
	defer server.Close()
	if err := migrate(server.URL); err != nil {
		return err
	}
	if leases > 0 {
		return hold(server.URL, leases)
	}
	for _, c := range []contest{
		{name: "hot 2 x 25", processes: 2, callers: 25},
		{name: "hot 8 x 1", processes: 8, callers: 1},
		{name: "hot 2 x 1", processes: 2, callers: 1},
		{name: "own keys 64", processes: 1, callers: 64, own: true},
	} {
		if err := c.print(server.URL, length, rounds); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func migrate(dsn string) error {
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgreslocker.New(pool).Migrate(context.Background())
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
func (c contest) print(dsn string, length time.Duration, rounds int) error {
	var ours, theirs []int
	for range rounds {
		n, err := c.round(dsn, length, useGuard)
		if err != nil {
			return err
		}
		m, err := c.round(dsn, length, useAdvisory)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, n), append(theirs, m)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	mid := rounds / 2
	fmt.Printf("%-12s guard %v /s, pg_advisory_xact_lock %v /s: %.1f x\n",
		c.name, ours, theirs, float64(ours[mid])/float64(max(1, theirs[mid])))
	return nil
}

// section runs f under the lock.
type section func(ctx context.Context, f func()) error

// use makes the sections of a process, and what closes them.
type use func(pool *pgxpool.Pool, c contest, process int) ([]section, func(), error)

// round returns sections a second.
func (c contest) round(dsn string, length time.Duration, u use) (int, error) {
	var sections []section
	for p := range c.processes {
		config, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			return 0, err
		}
		config.MaxConns = int32(c.callers) // as many as pg_advisory_xact_lock keeps busy
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		more, end, err := u(pool, c, p)
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

func useGuard(pool *pgxpool.Pool, c contest, process int) ([]section, func(), error) {
	g, err := guard.New(postgreslocker.New(pool), guard.WithTTL(10*time.Second))
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

// useAdvisory is what most services write: a transaction that begins with the
// lock, and is open while the section runs.
func useAdvisory(pool *pgxpool.Pool, c contest, process int) ([]section, func(), error) {
	all := make([]section, c.callers)
	for i := range all {
		key := c.key(process, i)
		all[i] = func(ctx context.Context, f func()) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", key); err != nil {
					return err
				}
				f()
				return nil
			})
		}
	}
	return all, func() {}, nil
}

// hold counts the leases that are lost in half a minute.
func hold(dsn string, n int) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	g, err := guard.New(postgreslocker.New(pool), guard.WithTTL(10*time.Second), guard.WithMaxHold(time.Hour))
	if err != nil {
		return err
	}
	defer g.Close(ctx)
	leases := make([]*guard.Lease, n)
	start := time.Now()
	each(leases, func(i int) {
		l, err := g.Acquire(ctx, strconv.Itoa(i))
		if leases[i] = l; err != nil {
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
