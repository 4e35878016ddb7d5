package rowlocker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	// batchBytes bounds the records of a batch, because servers bound the
	// length of a request.
	batchBytes = 256 << 10
	backlogMax = 1024 // calls that wait for a worker before others block

	// batchLeast is the shortest limit of a batch. A batch has longer than an
	// impatient call, because others travel with that call.
	batchLeast = 100 * time.Millisecond
	// batchMost is the limit of a request whose caller has no deadline.
	batchMost = 10 * time.Second

	// Renewals have workers of their own: a lease must not be lost because
	// other calls are slow. So have looks, which are many.
	renewWorkers, lookWorkers = 4, 2
	// lullMost is how long renewals and looks wait for others at most, to
	// travel with them, and no longer than a 25th of the TTL. A renewal has a
	// sixth, and what a look finds, a message mostly tells before.
	lullMost = 16 * time.Millisecond
)

type (
	calls = lockerkit.Calls[request, reply]
	call  = lockerkit.Call[request, reply]
)

type reply struct {
	result

	err    error
	unsent bool // the store is as if the request had never been made
}

// queue is where calls wait for workers.
type queue struct {
	calls

	lull time.Duration // for which the first of a batch waits for others
	turn chan struct{} // holds one: the worker that gathers a batch in a lull
}

func newQueue(lull time.Duration) *queue {
	return &queue{make(calls, backlogMax), lull, make(chan struct{}, 1)}
}

// bounded returns ctx with a deadline, so that what a caller without one has
// asked ends though the store is silent.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limits.Apart(batchMost))
}

// over returns when a lease is over that lasts until a time, if the store does
// not say it.
func (d *desk) over(until time.Time) time.Time {
	if d.traits.Clock {
		return time.Time{}
	}
	return until
}

// failed returns the reply of a request that was not answered.
func failed(err error) reply { return reply{err: err, unsent: errors.Is(err, locker.ErrUnsent)} }

// desk brings calls to the rows, many at a time. A key is with one worker at a
// time, so that the calls of a process do not conflict.
type desk struct {
	rows     Rows
	traits   Traits
	pulse    Pulse // nil: the store has none
	instance string
	memory   *memory
	told     func(key string, r *row, heirs []waiter, sent time.Time) // what this process did for its own claims
	calls    *queue
	renewals *queue
	looks    *queue // of claims that wait, at keys that are not known to be theirs

	mu     sync.Mutex                // guards what follows; never held across I/O
	busy   map[string]lockerkit.Bell // keys that are with a worker, whose bell it is
	parked map[string][]*call        // calls for them
}

func newDesk(rows Rows, traits Traits, instance string) *desk {
	d := &desk{
		rows: rows, traits: traits, instance: instance, memory: newMemory(),
		calls: newQueue(0), renewals: newQueue(lullMost), looks: newQueue(lullMost),
		busy: map[string]lockerkit.Bell{}, parked: map[string][]*call{},
	}
	d.pulse, _ = rows.(Pulse)
	return d
}

// serve starts the workers, which end with life.
func (d *desk) serve(life *lockerkit.Life) {
	serve := func(q *queue, workers int) {
		for range workers {
			life.Serve(func() { d.work(life.Context(), q) })
		}
	}
	serve(d.calls, d.traits.Workers)
	serve(d.renewals, renewWorkers)
	serve(d.looks, lookWorkers)
}

// do blocks until the request is answered or ctx ends.
func (d *desk) do(ctx context.Context, q request) reply {
	began, line := time.Now(), d.calls
	if q.verb == acquire && q.try.Queued && d.told != nil && !d.owns(&q) {
		line = d.looks
	}
	r, unsent, err := line.Do(ctx, q)
	return d.gaveUp(began, r, unsent, err)
}

// all does requests at once. answered is called for each as soon as it is
// answered, from any goroutine.
func (d *desk) all(ctx context.Context, line *queue, qs []request, answered func(i int, r reply)) {
	began, first := time.Now(), 0
	var waits sync.WaitGroup
	for part := range slices.Chunk(qs, d.traits.Batch) {
		posted, err := line.Post(ctx, part...)
		for i := range part {
			at := first + i
			if err != nil {
				answered(at, d.gaveUp(began, reply{}, true, err))
				continue
			}
			waits.Go(func() {
				r, unsent, err := posted[i].Wait()
				answered(at, d.gaveUp(began, r, unsent, err))
			})
		}
		first += len(part)
	}
	waits.Wait()
}

// gaveUp returns the reply to a call that was made at that time. err is why its
// caller gave up; nil: it was answered.
func (d *desk) gaveUp(began time.Time, r reply, unsent bool, err error) reply {
	if err == nil {
		return r
	}
	rows, explains := d.rows.(Explaining)
	switch {
	case unsent:
		err = fmt.Errorf("%w: %s: %w: %w", locker.ErrUnavailable, d.traits.Name, locker.ErrUnsent, err)
	case explains:
		err = rows.Unanswered(began, err)
	default:
		err = fmt.Errorf("%w: %s: %w", locker.ErrUnavailable, d.traits.Name, err)
	}
	return reply{err: err, unsent: unsent}
}

// work serves calls until ctx ends. A worker has at most as many tasks as fit
// into a batch. It waits for the first of a batch, and then for a lull.
//
// With a lull, its keys may be with other workers too: the store may never
// answer those.
func (d *desk) work(ctx context.Context, line *queue) {
	var all []*task
	var batch, rest []*call
	bell := make(lockerkit.Bell, 1) // rings when others park calls for it
	for ctx.Err() == nil {
		batch, rest = d.gather(ctx, line, all, rest, bell)
		if line.lull == 0 {
			batch = d.mine(all, batch, bell)
		}
		all = join(all, batch)
		now := time.Now()
		var ready, later []*task
		for _, t := range all {
			if t.after.After(now) {
				later = append(later, t)
			} else {
				ready = append(ready, t)
			}
		}
		again := d.round(ctx, ready)
		if line.lull == 0 {
			again = d.next(ready, again)
		}
		all = append(later, again...)
	}
}

// gather returns the calls that have come, first those that were left, and what
// is left of them now. It blocks until there is one, a task of all is due, the
// bell rings, or ctx ends.
func (d *desk) gather(
	ctx context.Context, line *queue, all []*task, left []*call, bell lockerkit.Bell,
) (batch, rest []*call) {
	room, wait := d.traits.Batch-len(all), due(all)
	if room <= 0 {
		lockerkit.Pause(wait, ctx.Done())
		return nil, left
	}
	size := func(q *request) int { return len(q.value) }
	if len(left) > 0 {
		return line.Gather(left, room, batchBytes, size)
	}
	if len(all) == 0 {
		wait = math.MaxInt64 // nothing is due
	}
	timer := time.NewTimer(limits.Apart(wait))
	defer timer.Stop()
	if line.lull > 0 {
		select {
		case line.turn <- struct{}{}:
			defer func() { <-line.turn }()
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
	select {
	case first := <-line.calls:
		if line.lull > 0 && len(all) == 0 {
			lockerkit.Pause(min(line.lull, time.Duration(first[0].Request.ttl)*time.Microsecond/25), ctx.Done())
		}
		return line.Gather(first, room, batchBytes, size)
	case <-bell:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, nil
}

// mine returns the calls that are this worker's, with those that others have
// parked for its keys, and parks those for the keys of another. A release must
// not wait until an acquire that has stepped back is due.
func (d *desk) mine(all []*task, batch []*call, own lockerkit.Bell) (mine []*call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range all {
		mine = append(mine, d.parked[t.key]...)
		delete(d.parked, t.key)
	}
	for _, c := range batch {
		key := c.Request.key
		if its := d.busy[key]; its != nil && its != own {
			d.parked[key] = append(d.parked[key], c)
			its.Ring()
			continue
		}
		d.busy[key] = own
		mine = append(mine, c)
	}
	return mine
}

// next returns the tasks that are not done, with the calls that were parked
// meanwhile.
func (d *desk) next(were, rest []*task) []*task {
	left := make(map[string]bool, len(rest))
	for _, t := range rest {
		left[t.key] = true
	}
	var parked []*call
	d.mu.Lock()
	for _, t := range were {
		calls := d.parked[t.key]
		delete(d.parked, t.key)
		if len(calls) == 0 && !left[t.key] {
			delete(d.busy, t.key)
		}
		parked = append(parked, calls...)
	}
	d.mu.Unlock()
	return join(rest, parked)
}

// due returns how long it is until one of the tasks may be tried.
func due(all []*task) (rest time.Duration) {
	for i, t := range all {
		if d := time.Until(t.after); i == 0 || d < rest {
			rest = d
		}
	}
	return max(0, rest)
}

// round sends what there is to send about the tasks once, and returns those
// that are not done.
func (d *desk) round(ctx context.Context, all []*task) (rest []*task) {
	all = drop(all)
	if len(all) == 0 {
		return nil
	}
	var waiting []*call
	for _, t := range all {
		waiting = append(waiting, t.calls...)
	}
	limit := max(batchLeast, min(batchMost, time.Until(lockerkit.Patience(waiting, batchMost))))
	ctx, cancel := context.WithTimeout(ctx, limits.Apart(limit))
	defer cancel()
	return d.attempt(ctx, all)
}

// drop takes out the calls whose callers gave up while their task was tried
// again. A new one is sent: its caller may still learn what became of it.
func drop(all []*task) (left []*task) {
	for _, t := range all {
		calls, qs := t.calls[:0], t.qs[:0]
		for i, c := range t.calls {
			if err := c.Ctx.Err(); err != nil && t.tries > 0 {
				c.Answer(failed(errors.Join(locker.ErrUnavailable, locker.ErrUnsent, err)))
				continue
			}
			calls, qs = append(calls, c), append(qs, t.qs[i])
		}
		if t.calls, t.qs = calls, qs; len(calls) > 0 {
			left = append(left, t)
		}
	}
	return left
}
