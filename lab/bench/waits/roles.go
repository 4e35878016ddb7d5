package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// open returns the guard of a process with a role.
func open() (j job, g *guard.Guard, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &j); err != nil {
		return j, nil, err
	}
	g, err = j.guard()
	return j, g, err
}

// guard returns a new guard, which ends with the process.
func (j *job) guard() (*guard.Guard, error) {
	return guard.New(redislocker.New(redis.NewClient(&redis.Options{Addr: j.Addr})),
		guard.WithTTL(j.TTL), guard.WithMaxHold(0), guard.WithMaxWait(time.Hour),
		guard.WithLogger(slog.New(slog.DiscardHandler)))
}

// holdMain holds all keys and reports that. Then it reads how many keys to
// release one after another, and reports the times.
func holdMain(in io.Reader, out io.Writer) error {
	j, g, err := open()
	if err != nil {
		return err
	}
	leases := make([]*guard.Lease, j.Keys)
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for at := range errs { // limits the number at a time
		wg.Go(func() {
			for i := at; i < j.Keys && errs[at] == nil; i += len(errs) {
				leases[i], errs[at] = g.Acquire(context.Background(), guard.Key("waits", i))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintln(out, "held")
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return lines.Err()
	}
	n, err := strconv.Atoi(lines.Text())
	for i := 0; i < n && err == nil; i++ {
		fmt.Fprintln(out, i, time.Now().UnixNano())
		err = leases[i].Release(context.Background())
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	select {} // until it is killed
}

// waitMain waits for each key, and reports the time when it has the key.
func waitMain(out io.Writer) error {
	j, g, err := open()
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards out
	for i := range j.Keys {
		go func() { // ends with the process
			err := g.Do(context.Background(), guard.Key("waits", i), func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				_, err := fmt.Fprintln(out, i, time.Now().UnixNano())
				return err
			})
			if err != nil {
				fmt.Fprintln(os.Stderr, "waits:", err)
			}
		}()
	}
	select {} // until it is killed
}

// usage returns the number of requests to the server, and the seconds of
// processor time that the server and the children have used.
func usage(ctx context.Context, rdb *redis.Client, children ...*child) (requests float64,
	seconds []float64, err error,
) {
	info, err := rdb.Info(ctx, "server", "commandstats").Result()
	if err != nil {
		return 0, nil, err
	}
	pids := []int{0}
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, _ := strconv.Atoi(value)
		switch {
		case name == "process_id":
			pids[0] = n
		case strings.HasPrefix(name, "cmdstat_eval"): // all other commands are a part of those
			requests += float64(n)
		}
	}
	for _, c := range children {
		pids = append(pids, c.Process.Pid)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") //nolint:gosec // a process of this run
		if err != nil {
			return 0, nil, err
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		user, _ := strconv.ParseFloat(string(fields[11]), 64)
		system, _ := strconv.ParseFloat(string(fields[12]), 64)
		seconds = append(seconds, (user+system)/100) // of ticks of 10 ms
	}
	return requests, seconds, nil
}
