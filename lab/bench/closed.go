package main

import (
	"context"
	"fmt"
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
	keys, slots := w.keysOf(i)
	for n := 0; time.Now().Before(end); n++ {
		key, slot := keys[n%len(keys)], slots[n%len(keys)]
		called, ran := time.Now(), false
		r.Requests++
		err := w.lock.Do(ctx, key, func() {
			r.Waits = append(r.Waits, time.Since(called))
			ran = true
			if w.Keys > 0 {
				w.touch(slot)
			} else {
				w.sell(ctx)
			}
		})
		switch {
		case ran:
			r.Sections++
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

// keysOf returns the keys on which caller i works in turn, and their slots in
// the arena.
func (w *worker) keysOf(i int) (keys []string, slots []int) {
	if w.Keys == 0 {
		return []string{hotKey}, []int{0}
	}
	for k := range w.Keys {
		slot := (w.Proc*w.Callers+i)*w.Keys + k
		keys, slots = append(keys, fmt.Sprintf("bench:%d", slot)), append(slots, slot)
	}
	return keys, slots
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
