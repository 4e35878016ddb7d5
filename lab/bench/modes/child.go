package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// job is the work of one process, in closed loops.
type job struct {
	Addr    string
	Callers int
	Readers int  // percent of the calls that share the key
	Permits int  // 0: none
	Cart    int  // how many random keys a call takes; 0: the one key
	Keys    int  // of which carts choose
	Apart   bool // a cart's keys are taken one after the other
	Section time.Duration
	For     time.Duration
}

// result is what a process has done.
type result struct {
	Sections int
	Refused  int
	Waits    []time.Duration // of all calls but readers
	Turns    [][2]int64      // begin and end of each permit's section, in unix ns
}

const warmKey = "warm"

// childMain is a process.
func childMain(text string, in io.Reader, out io.Writer) (err error) {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	g, err := guard.New(redislocker.New(rdb), guard.WithMaxWait(20*time.Second), guard.WithMaxWaiters(0),
		guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	ctx := context.Background()
	defer func() { err = errors.Join(err, g.Close(ctx)) }()
	modes := []*guard.Guard{g.With(guard.WithPermits(1)), g.With(guard.WithPermits(2)), g.With(guard.WithShared())}
	for _, m := range modes {
		if err := m.Do(ctx, warmKey, func(context.Context) error { return nil }); err != nil {
			return err
		}
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(true); err != nil {
		return err
	}
	if _, err := in.Read(make([]byte, 1)); err != nil {
		return err
	}
	return answers.Encode(j.loops(ctx, g))
}

// loops runs all callers and sums up their results.
func (j job) loops(ctx context.Context, g *guard.Guard) (sum result) {
	var mu sync.Mutex // guards sum
	var callers sync.WaitGroup
	end := time.Now().Add(j.For)
	for range j.Callers {
		callers.Go(func() {
			r := j.loop(ctx, g, end)
			mu.Lock()
			defer mu.Unlock()
			sum.Sections += r.Sections
			sum.Refused += r.Refused
			sum.Waits = append(sum.Waits, r.Waits...)
			sum.Turns = append(sum.Turns, r.Turns...)
		})
	}
	callers.Wait()
	return sum
}

func (j job) loop(ctx context.Context, g *guard.Guard, end time.Time) (r result) {
	read, permits := g.With(guard.WithShared()), g.With(guard.WithPermits(max(j.Permits, 1)))
	for {
		asked := time.Now()
		if asked.After(end) {
			return r
		}
		reads := rand.IntN(100) < j.Readers
		section := func(context.Context) error {
			began := time.Now()
			if !reads {
				r.Waits = append(r.Waits, began.Sub(asked))
			}
			time.Sleep(j.Section)
			r.Sections++
			if j.Permits > 0 {
				r.Turns = append(r.Turns, [2]int64{began.UnixNano(), time.Now().UnixNano()})
			}
			return nil
		}
		var err error
		switch {
		case j.Cart > 0:
			err = j.fill(ctx, g, section)
		case reads:
			err = read.Do(ctx, "hot", section)
		default:
			err = permits.Do(ctx, "hot", section)
		}
		if err != nil {
			r.Refused++
		}
	}
}

// fill takes a random cart, by one call or by one for each key.
func (j job) fill(ctx context.Context, g *guard.Guard, section func(context.Context) error) error {
	var keys []string
	for _, k := range rand.Perm(j.Keys)[:j.Cart] {
		keys = append(keys, fmt.Sprint("stock:", k))
	}
	if !j.Apart {
		return g.DoAll(ctx, keys, section)
	}
	slices.Sort(keys)
	for _, key := range slices.Backward(keys) {
		inner := section
		section = func(ctx context.Context) error { return g.Do(ctx, key, inner) }
	}
	return section(ctx)
}
