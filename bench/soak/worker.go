package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/bench/internal/host"
)

// jobEnv marks a process as a worker, and says what it is to do.
const jobEnv = "GUARD_SOAK_JOB"

type job struct {
	Arena      string
	Addr       string // of the store, by the way that can be cut
	Mutant     string
	Proc, Life int
	Callers    int
	Keys       int
	TTL        time.Duration
	Seed       uint64
}

// worker is a process whose callers want the same few keys over and over, until its stdin ends.
type worker struct {
	job
	arena *arena
	ways  []way
	over  chan struct{} // closed when it is to end
}

// workerMain is all that a worker does.
func workerMain(text string, in io.Reader) error {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of the terminal; the parent decides
	var w worker
	if err := json.Unmarshal([]byte(text), &w.job); err != nil {
		return err
	}
	a, unmap, err := host.Share[arena](w.Arena)
	if err != nil {
		return err
	}
	defer func() { _ = unmap() }()
	ways, closeAll, err := newWays(w.job)
	if err != nil {
		return err
	}
	w.arena, w.ways, w.over = a, ways, make(chan struct{})
	go a.pulses[w.Proc].beat(w.over)
	failures := make(chan error, w.Callers)
	var callers sync.WaitGroup
	for n := range w.Callers {
		callers.Go(func() {
			if err := w.loop(n); err != nil {
				failures <- err
			}
		})
	}
	left := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(left)
	}()
	select {
	case err = <-failures:
		return err
	case <-left:
	}
	close(w.over)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = closeAll(ctx) // who runs on after that has lost its lease
	callers.Wait()
	return nil
}

// loop is one caller.
func (w *worker) loop(n int) error {
	r := &w.arena.rings[w.Proc*maxCallers+n]
	rnd := rand.New(rand.NewPCG(w.Seed, uint64(w.Proc)<<32|uint64(w.Life)<<16|uint64(n)))
	for {
		select {
		case <-w.over:
			return nil
		default:
		}
		if err := w.visit(r, rnd); err != nil {
			return err
		}
	}
}

// visit is one call. It returns an error that no call may have.
func (w *worker) visit(r *ring, rnd *rand.Rand) error {
	key, way, p := rnd.IntN(w.Keys), w.ways[rnd.IntN(len(w.ways))], newPlan(rnd, w.TTL)
	tryLimit := config{ttl: w.TTL}.tryLimit()
	bound := max(way.maxWait, tryLimit)
	if p.cancel > 0 {
		bound = min(bound, p.cancel+tryLimit) // a try in flight is not interrupted
	}
	e := r.open(w.over, key, bound)
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.cancel > 0 {
		defer time.AfterFunc(p.cancel, cancel).Stop()
	}
	entered := false
	err := way.do(ctx, keyName(key), func(ctx context.Context, l lease) {
		entered = true
		e.phase.Store(inside)
		s := section{worker: w, way: way, key: key, entry: e, lease: l}
		s.run(ctx, p)
		r.publish()
	})
	if entered {
		return unexpected(err, guard.ErrLeaseLost, guard.ErrUnavailable)
	}
	e.began.Store(now())
	o := classify(err, ctx.Err() != nil)
	e.outcome.Store(int64(o))
	r.publish()
	time.Sleep(time.Millisecond + upTo(rnd, 10*time.Millisecond))
	if o != noAnswer {
		return nil
	}
	return unexpected(err, guard.ErrUnavailable)
}

// classify says what the error of a call is that did not get its key.
func classify(err error, gaveUp bool) outcome {
	switch {
	case errors.Is(err, guard.ErrClosed):
		return closed
	case errors.Is(err, guard.ErrQueueFull):
		return refused
	case errors.Is(err, guard.ErrNotAcquired) && gaveUp:
		return cancelled
	case errors.Is(err, guard.ErrNotAcquired):
		return held
	}
	return noAnswer
}

// unexpected returns err unless it is none or one of those that may be.
func unexpected(err error, may ...error) error {
	if err == nil {
		return nil
	}
	for _, m := range may {
		if errors.Is(err, m) {
			return nil
		}
	}
	return fmt.Errorf("unexpected error: %w", err)
}

func keyName(key int) string { return fmt.Sprint("soak", key) }

// keyInStore is what the store calls the key that the guard calls name.
func keyInStore(name string) string { return "guard:{" + name + "}" }
