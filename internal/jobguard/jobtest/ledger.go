// Package jobtest is for the tests of the packages under jobs: processes that
// work, and a ledger in Redis of what they did.
package jobtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Ledger is a list of events in one order. Its methods are safe for concurrent
// use by all processes; each blocks for one request.
type Ledger struct{ rdb redis.UniversalClient }

// Open returns the ledger of a Redis server.
func Open(rdb redis.UniversalClient) Ledger { return Ledger{rdb} }

const list = "jobtest:ledger"

// An event says what a worker did with a job. Its words have no spaces.
type event struct{ kind, worker, key, job string }

const (
	enter  = "enter"  // begins a job, holding its key
	done   = "done"   // ends it, still holding its key
	failed = "failed" // ends it with an error, still holding its key
	lost   = "lost"   // has been told that the lease is lost
	killed = "killed" // the worker is dead
	asked  = "asked"  // has asked for the key of a job
)

func (l Ledger) note(ctx context.Context, e event) error {
	words := strings.Join([]string{e.kind, e.worker, e.key, e.job}, " ")
	return l.rdb.RPush(context.WithoutCancel(ctx), list, words).Err()
}

// Work notes that this worker begins job, runs work, and notes how it ended.
func (l Ledger) Work(ctx context.Context, key, job string, work func(ctx context.Context) error) error {
	e := event{enter, Name(), key, job}
	if err := l.note(ctx, e); err != nil {
		return err
	}
	err := work(ctx)
	switch {
	case ctx.Err() != nil:
		e.kind = lost
	case err != nil:
		e.kind = failed
	default:
		e.kind = done
	}
	return errors.Join(err, l.note(ctx, e))
}

func (l Ledger) events(ctx context.Context) ([]event, error) {
	lines, err := l.rdb.LRange(ctx, list, 0, -1).Result()
	events := make([]event, 0, len(lines))
	for _, line := range lines {
		w := strings.Split(line, " ")
		events = append(events, event{w[0], w[1], w[2], w[3]})
	}
	return events, err
}

// judge returns an error if two workers had the same key at once, unless one of
// them was dead, or told that it had lost the lease.
func judge(events []event) error {
	var errs []error
	holds := map[string][]event{} // by key
	for i, e := range events {
		switch e.kind {
		case enter:
			for _, h := range holds[e.key] {
				if !losesLater(events[i:], h) && !losesLater(events[i:], e) {
					errs = append(errs, fmt.Errorf("%s began %s on key %s while %s was at %s", e.worker, e.job,
						e.key, h.worker, h.job))
				}
			}
			holds[e.key] = append(holds[e.key], e)
		case asked:
		case killed:
			for key := range holds {
				holds[key] = slices.DeleteFunc(holds[key], func(h event) bool { return h.worker == e.worker })
			}
		default:
			holds[e.key] = slices.DeleteFunc(holds[e.key],
				func(h event) bool { return h.worker == e.worker && h.job == e.job })
		}
	}
	return errors.Join(errs...)
}

// losesLater reports whether the job that e began ends with the loss of its
// lease.
func losesLater(events []event, e event) bool {
	for _, later := range events {
		if later.worker == e.worker && later.job == e.job && later.kind != enter {
			return later.kind == lost
		}
	}
	return false
}

// patience is for a queue to do what it must, on a machine with other work.
const patience = 2 * time.Minute

// Await waits until cond is true of what is done so far: the number of times
// that each job was done.
func (l Ledger) Await(t testing.TB, what string, cond func(done map[string]int) bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if events := l.read(t); cond(count(events)) {
			return
		}
	}
	t.Fatalf("not in %v: %s; the ledger: %v", patience, what, l.read(t))
}

// AwaitBegun waits until a worker has begun a job, and returns the job.
func (l Ledger) AwaitBegun(t testing.TB, worker string) (job string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, e := range l.read(t) {
			if e.kind == enter && e.worker == worker {
				return e.job
			}
		}
	}
	t.Fatalf("worker %s begins nothing; the ledger: %v", worker, l.read(t))
	return ""
}

// AwaitAsked waits until each of the workers has asked n times for key.
func (l Ledger) AwaitAsked(t testing.TB, key string, n int, workers ...string) {
	t.Helper()
	l.awaitAsked(t, key, func(times map[string]int) bool {
		return !slices.ContainsFunc(workers, func(w string) bool { return times[w] < n })
	})
}

// AwaitAskedByAny is AwaitAsked for one of the workers, whichever it is: where
// a broker chooses who gets a message, nobody knows before.
func (l Ledger) AwaitAskedByAny(t testing.TB, key string, n int, workers ...string) {
	t.Helper()
	l.awaitAsked(t, key, func(times map[string]int) bool {
		return slices.ContainsFunc(workers, func(w string) bool { return times[w] >= n })
	})
}

func (l Ledger) awaitAsked(t testing.TB, key string, enough func(times map[string]int) bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		times := map[string]int{}
		for _, e := range l.read(t) {
			if e.kind == asked && e.key == key {
				times[e.worker]++
			}
		}
		if enough(times) {
			return
		}
	}
	t.Fatalf("the workers do not ask often enough for %s; the ledger: %v", key, l.read(t))
}

// Check fails the test if two workers had one key at once.
func (l Ledger) Check(t testing.TB) {
	t.Helper()
	if err := judge(l.read(t)); err != nil {
		t.Error(err)
	}
}

// CheckOnce fails the test if a job was done twice, unless the worker that had
// done it before died at once: perhaps before the store knew.
func (l Ledger) CheckOnce(t testing.TB) {
	t.Helper()
	if err := judgeOnce(l.read(t)); err != nil {
		t.Error(err)
	}
}

func judgeOnce(events []event) error {
	var errs []error
	by := map[string]string{}   // the worker that has done a job
	last := map[string]string{} // the last job that a worker has done
	dead := map[string]bool{}
	for _, e := range events {
		switch e.kind {
		case killed:
			dead[e.worker] = true
		case done:
			if w := by[e.job]; w != "" && (!dead[w] || last[w] != e.job) {
				errs = append(errs, fmt.Errorf("%s did %s, which %s had done", e.worker, e.job, w))
			}
			by[e.job], last[e.worker] = e.worker, e.job
		}
	}
	return errors.Join(errs...)
}

func count(events []event) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		if e.kind == done {
			n[e.job]++
		}
	}
	return n
}

func (l Ledger) read(t testing.TB) []event {
	t.Helper()
	events, err := l.events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return events
}
