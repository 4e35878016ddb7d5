package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The workloads of this file measure how guard's cost grows, one size at a time.
// docs/scale.md has what came out.

// scaled is the part of a job that these workloads add.
type scaled struct {
	Does   string        // "call": in a closed loop; "wait": for the key that another process holds; "hold": a lease
	Guards int           // instances in the process; each has the job's number of callers
	Keys   int           // for calls at random; 1 is the hot key
	TTL    time.Duration // 0: the default
	Late   time.Duration // how much later answers arrive
	Addrs  []string      // of a cluster; nil: the server of the run
	Procs  int           // GOMAXPROCS; 0: as it comes
	Spin   int           // goroutines that never rest
}

// scale is a workload of one size. beside are the jobs of other processes.
func scale(name, title string, procs int, of job, beside ...job) workload {
	of.Kind, of.Library = "scale", ours
	return workload{
		name: "scale-" + name, title: title, once: true, own: true,
		measure: func(b *bench, c call) ([]run, error) {
			j := of
			j.Duration = max(j.Duration, b.plan.Closed)
			j.Duration = min(j.Duration, 10*b.plan.Closed)
			jobs := slices.Repeat([]job{j}, procs)
			for _, o := range beside {
				o.Library, o.Duration = ours, j.Duration+2*settling
				jobs = append(jobs, o)
			}
			for i := range jobs {
				jobs[i].Proc, jobs[i].MaxWait = i, patient
			}
			all, each, err := b.measureJobs(c.ctx, jobs, nil)
			if err != nil {
				return nil, err
			}
			v := values{"connections": each[0].Values["connections"]}
			for _, r := range each {
				v["bytes"] += r.Values["bytes"]
				v["lost"] += r.Values["lost"]
			}
			j.note(v, all, procs)
			return b.one(c, all, v), nil
		},
	}
}

// settling is the time in which waiters and holders come to rest.
const settling = 2 * time.Second

// note puts into v what each call costs, or each waiter or lease in a second.
func (j *job) note(v values, all result, procs int) {
	per := float64(all.Requests)
	if j.Scaled.Does != "call" {
		per = float64(procs*j.Scaled.Guards*j.Callers) * j.Duration.Seconds()
	}
	v["rate"] = perSecond(all.Requests, j.Duration)
	v["cmds"], v["bytes"] = float64(all.Commands)/per, v["bytes"]/per
	v["client us"] = float64(all.Cost.Client.Microseconds()) / per
	v["server us"] = float64(all.Cost.Server.Microseconds()) / per
}

// scaleWorkloads are sizes of keys, processes, instances, waiters, TTL, distance
// and servers.
func scaleWorkloads() (all []workload) {
	calls := func(name, title string, procs, callers int, s scaled) {
		s.Does, s.Guards = "call", 1
		all = append(all, scale(name, title, procs, job{Callers: callers, Duration: 30 * s.Late, Scaled: s}))
	}
	for _, n := range []int{1000, 100_000, 1_000_000} {
		calls(fmt.Sprintf("keys-%d", n), fmt.Sprintf("1 process x 16 callers, keys at random of %d", n), 1, 16,
			scaled{Keys: n})
	}
	for _, n := range []int{1, 2, 4, 8} {
		calls(fmt.Sprintf("processes-%d", n), "hot key, "+some(n, "process", "es")+" x 1 caller", n, 1, scaled{Keys: 1})
	}
	for _, late := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		title := fmt.Sprintf("1 process x 16 callers, keys at random, answers %v later", late)
		calls("trip-"+late.String(), title, 1, 16, scaled{Keys: 1_000_000, Late: late})
	}
	all = append(all, onCluster(scale("cluster-3", "1 process x 16 callers, keys at random, a Cluster of three", 1,
		job{Callers: 16, Scaled: scaled{Does: "call", Guards: 1, Keys: 1_000_000}})))
	behind := func(name, title string, guards, callers int) {
		s := scaled{Does: "wait", Guards: guards}
		title += ", behind a holder"
		all = append(all, scale(name, title, 1, job{Callers: callers, Scaled: s}, job{Kind: "holder"}))
	}
	for _, n := range []int{1, 10, 100, 1000} {
		behind(fmt.Sprintf("instances-%d", n), some(n, "instance", "s")+" in 1 process, 1 waiter each", n, 1)
	}
	for _, n := range []int{1, 100, 10_000} {
		behind(fmt.Sprintf("waiters-%d", n), "1 instance, "+some(n, "waiter", "s")+" of one key", 1, n)
	}
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second} {
		all = append(all, scale("ttl-"+ttl.String(), fmt.Sprintf("1 process holds 1,000 leases of %v", ttl), 1, job{
			Callers: 1000, Duration: ttl, Scaled: scaled{Does: "hold", Guards: 1, TTL: ttl},
		}))
	}
	return all
}

// onCluster is w on a cluster of its own.
func onCluster(w workload) workload {
	measure := w.measure
	w.measure = func(b *bench, c call) ([]run, error) {
		lab := &redisproc.Lab{Dir: b.dir}
		defer lab.Close()
		cluster, err := lab.StartCluster(false)
		if err != nil {
			return nil, err
		}
		there := *b
		there.cluster = cluster.Addrs()
		return measure(&there, c)
	}
	return w
}

// scaled opens the guards of a job and lets each make its connections.
func (w *worker) scaled() measurement {
	guards := make([]*guard.Guard, w.Scaled.Guards)
	errs := make([]error, len(guards))
	var opening sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		opening.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(guards)); i = next.Add(1) - 1 {
				if guards[i], errs[i] = w.openScaled(); errs[i] == nil {
					errs[i] = guards[i].Do(context.Background(), guard.Key("bench", "warm", i), w.nothing)
				}
			}
		})
	}
	opening.Wait()
	return func(ctx context.Context, start time.Time) (result, error) {
		defer closeAll(guards)
		for _, err := range errs {
			if err != nil {
				return result{}, err
			}
		}
		return w.measureScaled(ctx, start, guards), nil
	}
}

func closeAll(guards []*guard.Guard) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, g := range guards {
		if g != nil {
			wg.Go(func() { _ = g.Close(ctx) })
		}
	}
	wg.Wait()
}

func (w *worker) nothing(context.Context) error { return nil }

func (w *worker) openScaled() (*guard.Guard, error) {
	opts := []guard.Option{guard.WithMaxWait(time.Hour), guard.WithMaxWaiters(0)}
	if w.Scaled.TTL > 0 {
		opts = append(opts, guard.WithTTL(w.Scaled.TTL))
	}
	var rdb redis.UniversalClient = redis.NewClient(&redis.Options{Addr: w.Addr, Dialer: w.dialLate})
	if w.Scaled.Addrs != nil {
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: w.Scaled.Addrs, Dialer: w.dialLate})
	}
	return guard.New(redislocker.New(rdb), opts...) // rdb itself sends nothing, so it has nothing to close
}

// dialLate is a dialer whose connections are counted, and are as far away as the
// job says.
func (w *worker) dialLate(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := w.wire.dial(ctx, network, addr)
	if err != nil || w.Scaled.Late == 0 {
		return c, err
	}
	return lateConn{c, w.Scaled.Late}, nil
}

// lateConn has answers arrive later.
type lateConn struct {
	net.Conn

	late time.Duration
}

func (c lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(c.late)
	return n, err
}

// measureScaled runs all callers. In a closed loop it measures from start on,
// otherwise when they have come to rest.
func (w *worker) measureScaled(ctx context.Context, start time.Time, guards []*guard.Guard) (r result) {
	ctx, cancel := context.WithCancel(ctx)
	var calls, lost atomic.Int64
	var wg sync.WaitGroup
	from := start
	if w.Scaled.Does != "call" {
		from = start.Add(settling)
	}
	for _, g := range guards {
		for i := range w.Callers {
			wg.Go(func() {
				time.Sleep(time.Until(start))
				w.scaledCaller(ctx, g, i, &calls, &lost)
			})
		}
	}
	time.Sleep(time.Until(from))
	w.Scaled.crowded(ctx)
	paid, sent, bytes := w.spent(ctx), w.wire.commands.Load(), w.wire.bytes.Load()
	time.Sleep(time.Until(from.Add(w.Duration)))
	r.Requests = calls.Load()
	r.Cost = w.spent(ctx).add(paid, -1)
	r.Commands = w.wire.commands.Load() - sent
	r.Values = values{"bytes": float64(w.wire.bytes.Load() - bytes), "connections": w.connections(ctx)}
	r.Values["lost"] = float64(lost.Load())
	cancel()
	wg.Wait()
	return r
}

// scaledCaller does what the job says until ctx ends.
func (w *worker) scaledCaller(ctx context.Context, g *guard.Guard, i int, calls, lost *atomic.Int64) {
	switch w.Scaled.Does {
	case "call":
		key := func() string { return fmt.Sprintf("bench:scale:%d", rand.N(w.Scaled.Keys)) }
		if w.Scaled.Keys == 1 {
			key = func() string { return hotKey }
		}
		for ctx.Err() == nil {
			if g.Do(ctx, key(), w.nothing) == nil {
				calls.Add(1)
			}
		}
	case "wait":
		_ = g.Do(ctx, hotKey, w.nothing)
	case "hold":
		held, err := g.Acquire(ctx, guard.Key("bench", "lease", i))
		if err == nil {
			select {
			case <-ctx.Done():
			case <-held.Context().Done():
				if ctx.Err() == nil {
					lost.Add(1)
				}
			}
			_ = held.Release(context.WithoutCancel(ctx))
		}
	}
}

// connections returns how many clients Redis has.
func (w *worker) connections(ctx context.Context) float64 {
	n, _ := strconv.Atoi(w.rdb.InfoMap(ctx, "clients").Val()["Clients"]["connected_clients"])
	return float64(n)
}
