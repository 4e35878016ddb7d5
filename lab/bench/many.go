package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-lockguard/guard"
)

// The workloads of this file measure what many keys cost one process, and what
// happens when they change hands or cannot be renewed in time.

func manyWorkloads() (all []workload) {
	for _, n := range []int{299, 10_000} {
		all = append(all, workload{
			name: fmt.Sprintf("waits-%d", n), own: true,
			title: fmt.Sprintf("%d keys that one process holds and another waits for; some are released, then the "+
				"holder is killed; TTL 10 s", n),
			measure: func(b *bench, c call) ([]run, error) { return b.waited(c, n) },
		})
	}
	all = append(all, workload{
		name: "cuts", title: "two guards pass 4,000 keys to each other at once, while subscriptions are cut", own: true,
		measure: func(b *bench, c call) ([]run, error) {
			all, each, err := b.measure(c.ctx, 1, job{
				Kind: "cuts", Library: ours, Callers: min(4000, 4*b.plan.CrowdSize), Duration: b.plan.Crowd,
			}, nil)
			if err != nil {
				return nil, err
			}
			v := waits(all.Waits)
			v["lost"], v["cmds/key"] = each[0].Values["lost"], each[0].Values["cmds/key"]
			return b.one(c, all, v), nil
		},
	})
	cliff := func(name, title string, leases int, ttl time.Duration, s scaled, busy int) {
		s.Does, s.Guards, s.TTL = "hold", 1, ttl
		j := job{Callers: leases, Duration: 10 * time.Second, Scaled: s}
		w := scale("cliff-"+name, fmt.Sprintf("%d leases of %v, %s", leases, ttl, title), 1, j,
			slices.Repeat([]job{{Kind: "busy"}}, busy)...)
		all = append(all, w)
	}
	cliff("5000", "nothing else", 5000, time.Second, scaled{}, 0)
	cliff("5000-busy-6", "beside six busy processes", 5000, time.Second, scaled{}, 6)
	cliff("1000-spin-8", "on one processor, beside eight busy goroutines", 1000, 10*time.Second,
		scaled{Procs: 1, Spin: 8}, 0)
	return all
}

// spin uses all processor time that it gets.
func spin(until func() bool) {
	for x := 0; !until(); x++ {
		_ = x
	}
}

// stayBusy is the job of a process that takes the processor from others, once
// they have come to rest.
func (w *worker) stayBusy(_ context.Context, start time.Time) (result, error) {
	end := start.Add(w.Duration)
	time.Sleep(time.Until(start.Add(settling)))
	spin(func() bool { return time.Now().After(end) })
	return result{}, nil
}

// crowded lets goroutines of a holder use the processor until ctx ends.
func (s scaled) crowded(ctx context.Context) {
	if s.Procs > 0 {
		runtime.GOMAXPROCS(s.Procs)
	}
	for range s.Spin {
		go spin(func() bool { return ctx.Err() != nil })
	}
}

func (b *bench) waited(c call, n int) ([]run, error) {
	n = min(n, b.plan.LeaseCount)
	j := job{Library: ours, Callers: n, Duration: b.plan.Leases / 2}
	keeps, wants := j, j
	keeps.Kind, keeps.Dies, wants.Kind, wants.Proc = "keeps", true, "wants", 1
	all, each, err := b.measureJobs(c.ctx, []job{keeps, wants}, nil)
	if err != nil {
		return nil, err
	}
	v := waits(all.Waits)
	maps.Copy(v, each[1].Values)
	return b.one(c, all, v), nil
}

// released is how many of the keys are released before the holder dies.
func (w *worker) released() int { return max(w.Callers/50, 1) }

func manyKey(i int) string { return guard.Key("bench", "many", i) }

// keepMany holds all keys. At half time it releases some, one after the other,
// and then it is killed.
func (w *worker) keepMany() measurement {
	s := &side{worker: w, leases: make([]*guard.Lease, w.Callers)}
	var err error
	if s.guard, err = w.openScaled(); err == nil {
		_, err = s.acquire(context.Background(), 64)
	}
	return func(ctx context.Context, start time.Time) (result, error) {
		if err != nil {
			return result{}, err
		}
		time.Sleep(time.Until(start.Add(w.Duration / 2)))
		for i := range w.released() {
			w.arena.releasedAt.Store(time.Now().UnixNano())
			if err := s.leases[i].Release(ctx); err != nil {
				return result{}, err
			}
			time.Sleep(10 * time.Millisecond)
		}
		w.arena.holder.Store(time.Now().UnixNano()) // when it dies
		return result{}, syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	}
}

// wantMany waits for each key. It measures the cost until the first is
// released.
func (w *worker) wantMany() measurement {
	g, err := w.openScaled()
	return func(ctx context.Context, start time.Time) (r result, _ error) {
		if err != nil {
			return r, err
		}
		var mu sync.Mutex // guards r
		var last time.Duration
		var all sync.WaitGroup
		for i := range w.Callers {
			all.Go(func() {
				err := g.Do(ctx, manyKey(i), func(context.Context) error {
					now := time.Now().UnixNano()
					mu.Lock()
					defer mu.Unlock()
					if died := w.arena.holder.Load(); died != 0 {
						last = max(last, time.Duration(now-died))
					} else {
						r.Waits = append(r.Waits, time.Duration(now-w.arena.releasedAt.Load()))
					}
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				r.failed(err)
			})
		}
		time.Sleep(time.Until(start.Add(w.Duration / 4)))
		sent, used, since := w.wire.commands.Load(), w.spent(ctx), time.Now()
		time.Sleep(time.Until(start.Add(w.Duration / 2)))
		span := time.Since(since).Seconds()
		sent, used = w.wire.commands.Load()-sent, w.spent(ctx).add(used, -1)
		all.Wait()
		r.Values = values{
			"commands/s": float64(sent) / span, "cpu %": 100 * used.Client.Seconds() / span, "killed max ms": ms(last),
		}
		return r, nil
	}
}

// side is a guard that holds all keys, or waits for them.
type side struct {
	*worker
	guard  *guard.Guard
	leases []*guard.Lease
	lost   atomic.Int64
}

// acquire waits for all keys, so many at a time. It returns the time when it had
// the last.
func (s *side) acquire(ctx context.Context, several int) (last time.Time, err error) {
	err = every(s.Callers, several, func(i int) (err error) {
		s.leases[i], err = s.guard.Acquire(ctx, manyKey(i))
		return err
	})
	return time.Now(), err
}

// release releases all keys, some at a time, and counts the leases that were
// lost. What has no answer is released in the background.
func (s *side) release(ctx context.Context) error {
	return every(s.Callers, 64, func(i int) error {
		err := s.leases[i].Release(ctx)
		if errors.Is(err, guard.ErrLeaseLost) {
			s.lost.Add(1)
			return nil
		}
		if errors.Is(err, guard.ErrUnavailable) {
			return nil
		}
		return err
	})
}

// every calls do with 0 to n-1, in so many goroutines. It returns the first
// error of each of them.
func every(n, goroutines int, do func(i int) error) error {
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

// passAll lets two guards pass all keys to each other until the time is over.
// Each time it cuts their subscriptions and releases all keys at once.
func (w *worker) passAll() measurement {
	var sides [2]*side
	var err error
	for i := range sides {
		sides[i] = &side{worker: w, leases: make([]*guard.Lease, w.Callers)}
		g, e := w.openScaled()
		sides[i].guard, err = g, errors.Join(err, e)
	}
	return func(ctx context.Context, start time.Time) (r result, _ error) {
		if err != nil {
			return r, err
		}
		defer closeAll([]*guard.Guard{sides[0].guard, sides[1].guard})
		holder, waiter := sides[0], sides[1]
		if _, err := holder.acquire(ctx, 64); err != nil {
			return r, err
		}
		sent := w.wire.commands.Load()
		for n := 0; n == 0 || time.Since(start) < w.Duration; n++ {
			took, err := pass(ctx, holder, waiter)
			if err != nil {
				return r, err
			}
			r.Waits = append(r.Waits, took)
			holder, waiter = waiter, holder
		}
		keys := float64(w.Callers * len(r.Waits))
		r.Values = values{
			"lost":     float64(sides[0].lost.Load() + sides[1].lost.Load()),
			"cmds/key": float64(w.wire.commands.Load()-sent) / keys,
		}
		return r, holder.release(ctx)
	}
}

// pass returns the time until waiter has all keys of holder.
func pass(ctx context.Context, holder, waiter *side) (took time.Duration, err error) {
	var last time.Time
	var failed error
	var waiting sync.WaitGroup
	waiting.Go(func() { last, failed = waiter.acquire(ctx, waiter.Callers) })
	time.Sleep(settling)
	start := time.Now()
	err = holder.rdb.ClientKillByFilter(ctx, "TYPE", "pubsub").Err()
	err = errors.Join(err, holder.release(ctx))
	waiting.Wait()
	return last.Sub(start), errors.Join(err, failed)
}
