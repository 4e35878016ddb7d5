package main

import (
	"context"
	"sync"
	"time"
)

// request is the record of one request of the open loop.
type request struct {
	lag    time.Duration // from its due time to its call
	took   time.Duration // from the call to its section, or to the refusal
	served bool
	inTime bool // its section ended before the measurement
	err    error
}

// openLoop sends requests at their due time, however many wait already. Each
// has its own goroutine.
func (w *worker) openLoop(ctx context.Context, start time.Time) (result, error) {
	interval := time.Duration(float64(time.Second) / w.Rate)
	start = start.Add(interval * time.Duration(w.Proc) / openProcs) // the processes take turns
	end := start.Add(w.Duration)
	requests := make([]request, int(w.Duration/interval))
	before := w.wire.commands.Load()
	var wg sync.WaitGroup
	for i := range requests {
		due := start.Add(time.Duration(i) * interval)
		if d := time.Until(due); d > 0 {
			time.Sleep(d)
		}
		wg.Go(func() { w.send(ctx, &requests[i], due, end) })
	}
	wg.Wait()

	r := result{Requests: int64(len(requests)), Commands: w.wire.commands.Load() - before}
	for i := range requests {
		r.add(&requests[i])
	}
	return r, w.sectionError()
}

func (w *worker) send(ctx context.Context, q *request, due, end time.Time) {
	called := time.Now()
	q.lag = called.Sub(due)
	q.err = w.lock.Do(ctx, hotKey, func() {
		q.took, q.served = time.Since(called), true
		w.sell(ctx)
		q.inTime = time.Now().Before(end)
	})
	if !q.served {
		q.took = time.Since(called)
	}
}

// add counts the request. Its wait is counted from its due time, so that a
// sender that falls behind does not flatter a library. A refusal is counted
// from the call, because the library is responsible only for that time.
func (r *result) add(q *request) {
	r.Lags = append(r.Lags, q.lag)
	if !q.served {
		r.Refusals = append(r.Refusals, q.took)
		return
	}
	r.Sections++
	r.Waits = append(r.Waits, q.lag+q.took)
	if q.inTime {
		r.InTime++
	}
	r.failed(q.err)
}
