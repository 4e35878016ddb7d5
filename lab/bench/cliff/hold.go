package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// result counts the lost leases.
type result struct {
	Lost  int
	First time.Duration // time of the first loss, from when all were held
	CPU   float64       // of one core, in percent
}

// holdMain is the process that holds the leases. It writes a line when it has
// all leases, and a line with the result.
func holdMain(out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &j); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	defer func() { _ = rdb.Close() }()
	g, err := guard.New(redislocker.New(rdb), guard.WithTTL(j.TTL), guard.WithMaxHold(0),
		guard.WithMaxWait(30*time.Second),
		guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	h := &holder{guard: g}
	if err := h.acquire(j.Leases); err != nil {
		return err
	}
	fmt.Fprintln(out, "held")
	for range j.Spin {
		go spin() // ends with the process
	}
	h.start.Store(time.Now().UnixNano())
	before := cpuTime()
	time.Sleep(j.For)
	r := result{
		Lost: int(h.lost.Load()), First: time.Duration(h.first.Load()),
		CPU: 100 * (cpuTime() - before).Seconds() / j.For.Seconds(),
	}
	return json.NewEncoder(out).Encode(r) // the leases end with the process
}

// holder counts the leases that it loses.
type holder struct {
	guard *guard.Guard
	start atomic.Int64 // when all were held; 0 if not yet
	lost  atomic.Int64
	first atomic.Int64 // when the first was lost, in ns after start
}

// acquire acquires n leases, several at a time. A lost lease is counted and
// given up, as a guarded function would do.
func (h *holder) acquire(n int) error {
	const some = 64
	errs := make([]error, some)
	var wg sync.WaitGroup
	for at := range some {
		wg.Go(func() {
			for i := at; i < n && errs[at] == nil; i += some {
				l, err := h.guard.Acquire(context.Background(), guard.Key("cliff", i))
				if err != nil {
					errs[at] = err
					return
				}
				context.AfterFunc(l.Context(), func() { h.lose(l) })
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (h *holder) lose(l *guard.Lease) {
	if start := h.start.Load(); h.lost.Add(1) == 1 && start > 0 { // otherwise it was lost before all were held
		h.first.Store(time.Now().UnixNano() - start)
	}
	_ = l.Release(context.Background())
}

// spin uses all processor time that it gets.
func spin() {
	for x := 0; ; x++ {
		_ = x
	}
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for a wrong argument
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
