package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
)

// A side is a guard that holds all keys, or waits for them.
type side struct {
	guard  *guard.Guard
	keys   int
	leases []*guard.Lease
	lost   int
}

// cutting lets two guards pass all keys to each other again and again. Each time
// it cuts their subscriptions and releases all keys at once.
func (j *job) cutting(ctx context.Context, out io.Writer) (err error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	defer func() { _ = rdb.Close() }()
	var sides [2]*side
	for i := range sides {
		g, err := j.guard()
		if err != nil {
			return err
		}
		sides[i] = &side{guard: g, keys: j.Keys, leases: make([]*guard.Lease, j.Keys)}
	}
	holder, waiter := sides[0], sides[1]
	if _, err := holder.acquire(ctx); err != nil {
		return err
	}
	var took []time.Duration
	before, _, err := usage(ctx, rdb)
	if err != nil {
		return err
	}
	for range j.cuts {
		d, err := j.cut(ctx, rdb, holder, waiter)
		if err != nil {
			return err
		}
		took = append(took, d)
		holder, waiter = waiter, holder
	}
	after, _, err := usage(ctx, rdb)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d keys; subscriptions cut and all keys released, until all are taken: %s; %d leases lost; "+
		"%.1f requests a key and cut\n",
		j.Keys, summary(took), sides[0].lost+sides[1].lost, (after-before)/float64(j.Keys*j.cuts))
	return nil
}

// cut returns the time until waiter has all keys of holder.
func (j *job) cut(ctx context.Context, rdb *redis.Client, holder, waiter *side) (time.Duration, error) {
	type result struct {
		last time.Time
		err  error
	}
	done := make(chan result, 1)
	go func() { // ends when waiter has all keys
		last, err := waiter.acquire(ctx)
		done <- result{last, err}
	}()
	time.Sleep(j.settle)
	start := time.Now()
	if err := rdb.ClientKillByFilter(ctx, "TYPE", "pubsub").Err(); err != nil {
		return 0, err
	}
	if err := holder.release(ctx); err != nil {
		return 0, err
	}
	r := <-done
	return r.last.Sub(start), r.err
}

// acquire waits for all keys at once. It returns the time when it had the last.
func (s *side) acquire(ctx context.Context) (last time.Time, err error) {
	err = each(s.keys, s.keys, func(i int) (err error) {
		s.leases[i], err = s.guard.Acquire(ctx, guard.Key("waits", i))
		return err
	})
	return time.Now(), err
}

// release releases all keys, some at a time, and counts the leases that were
// lost.
func (s *side) release(ctx context.Context) error {
	var lost atomic.Int64
	err := each(s.keys, 64, func(i int) error {
		err := s.leases[i].Release(ctx)
		if errors.Is(err, guard.ErrLeaseLost) {
			lost.Add(1)
			return nil
		}
		if errors.Is(err, guard.ErrUnavailable) {
			return nil // it is released in the background
		}
		return err
	})
	s.lost += int(lost.Load())
	return err
}

// each calls do with 0 to n-1, in that many goroutines. It returns the first
// error of each of them.
func each(n, goroutines int, do func(i int) error) error {
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for at := range errs {
		wg.Go(func() {
			for i := at; i < n && errs[at] == nil; i += goroutines {
				errs[at] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
