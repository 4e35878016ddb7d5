package main

import (
	"context"
	"sync"
	"time"
)

// closedLoop lets each caller come back as soon as its call is done.
func (w *worker) closedLoop(ctx context.Context, start time.Time) (result, error) {
	end := start.Add(w.Duration)
	ctx, cancel := context.WithCancel(ctx)
	defer time.AfterFunc(time.Until(end), cancel).Stop()
	defer cancel()

	results := make([]result, w.Callers)
	before, paid := w.wire.commands.Load(), w.spent(ctx)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			time.Sleep(time.Until(start))
			w.caller(ctx, i, end, &results[i])
		})
	}
	wg.Wait()
	var all result
	for _, r := range results {
		all.merge(r)
	}
	all.Commands = w.wire.commands.Load() - before
	all.Cost = w.spent(ctx).add(paid, -1)
	return all, w.sectionError()
}

// caller is one of the callers of a closed loop. A wait that is cut short by
// the end of the measurement counts with its length so far. Otherwise the
// longest waits would not be seen.
func (w *worker) caller(ctx context.Context, i int, end time.Time, r *result) {
	next := w.picks(i, end.Add(-w.Duration))
	for time.Now().Before(end) {
		k := next()
		called, ran := time.Now(), false
		r.Requests++
		err := w.lock.Do(ctx, k.key, func() {
			if k.noted {
				r.Waits = append(r.Waits, time.Since(called))
			}
			ran = true
			if w.Keys > 0 || w.Shared != "" {
				w.touch(k.slot)
			} else {
				w.sell(ctx)
			}
		})
		switch {
		case ran:
			r.Sections++
			if w.Keys > 0 || w.Shared != "" {
				r.Calls = append(r.Calls, time.Since(called))
			}
			if time.Now().Before(end) {
				r.InTime++
			}
			r.failed(err)
		case ctx.Err() != nil:
			r.Waits = append(r.Waits, time.Since(called))
		default:
			r.Refusals = append(r.Refusals, time.Since(called))
		}
	}
}

// failed records a call that ran but ended with an error, because its lease was
// lost.
func (r *result) failed(err error) {
	if err == nil {
		return
	}
	if r.Failed++; r.Failure == "" {
		r.Failure = err.Error()
	}
}
