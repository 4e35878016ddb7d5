package main

import (
	"context"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A cost is what a measurement takes from processors and memory. Of a measurement
// it is the difference of two.
type cost struct {
	Client   time.Duration // processor time of the processes that measure
	Server   time.Duration // processor time of Redis
	Allocs   int64         // allocations of the processes that measure
	Switches int64         // context switches of the processes that measure
}

// spent returns the costs of this process so far. The first process also asks
// Redis for its own.
func (w *worker) spent(ctx context.Context) (c cost) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.Allocs = int64(m.Mallocs)
	if w.Proc == 0 {
		c.Server = w.serverTime(context.WithoutCancel(ctx))
	}
	c.Client, c.Switches = usage()
	return c
}

// serverTime returns the processor time that Redis has used.
func (w *worker) serverTime(ctx context.Context) time.Duration {
	var sum float64
	for _, addr := range append([]string{w.Addr}, w.Scaled.Addrs...) {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		for _, section := range rdb.InfoMap(ctx, "cpu").Val() {
			for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
				seconds, _ := strconv.ParseFloat(section[field], 64) // 0 if the server does not tell
				sum += seconds
			}
		}
		_ = rdb.Close()
	}
	return time.Duration(sum * float64(time.Second))
}

func (c cost) add(o cost, sign int64) cost {
	return cost{
		Client:   c.Client + time.Duration(sign)*o.Client,
		Server:   c.Server + time.Duration(sign)*o.Server,
		Allocs:   c.Allocs + sign*o.Allocs,
		Switches: c.Switches + sign*o.Switches,
	}
}

// note puts the costs of each of n calls into v. An earlier build may have
// measured none.
func (c cost) note(v values, n int64) {
	if n == 0 || c.Client == 0 {
		return
	}
	v["client us"] = share(c.Client.Nanoseconds(), n) / 1000
	v["server us"] = share(c.Server.Nanoseconds(), n) / 1000
	v["allocs"] = share(c.Allocs, n)
	v["switches"] = share(c.Switches, n)
}

// usage returns the processor time that this process has used, and how often
// its threads gave the processor to others.
func usage() (processor time.Duration, switches int64) {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for a wrong argument
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw + u.Nivcsw
}
