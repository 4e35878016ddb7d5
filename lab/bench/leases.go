package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

var errHolderLost = errors.New("the holder lost its lease")

// holdMany acquires a lease for each caller and then only holds them. So the
// measurement shows the cost of renewal.
func (w *worker) holdMany() measurement {
	leases := make([]lease, w.Callers)
	errs := make([]error, w.Callers)
	w.each(func(i int) { leases[i], errs[i] = w.hold(fmt.Sprintf("bench:lease:%d", i)) })
	return func(ctx context.Context, start time.Time) (result, error) {
		for _, err := range errs {
			if err != nil {
				return result{}, err
			}
		}
		time.Sleep(time.Until(start))
		before, since := w.wire.commands.Load(), time.Now()
		idle, _ := usage()
		goroutines := 0
		for time.Since(since) < w.Duration {
			time.Sleep(w.Duration / 100)
			goroutines = max(goroutines, runtime.NumGoroutine())
		}
		used, _ := usage()
		share := (used - idle).Seconds() / time.Since(since).Seconds()
		r := result{Requests: int64(w.Callers), Commands: w.wire.commands.Load() - before}
		lost := 0
		for _, l := range leases {
			if l.Lost() {
				lost++
			}
		}
		keys, err := w.rdb.DBSize(ctx).Result() // counted independently of the library
		r.Values = map[string]float64{
			"lost": float64(max(lost, w.Callers-int(keys))), "goroutines": float64(goroutines), "cpu %": 100 * share,
		}
		w.each(func(i int) { leases[i].Release() })
		return r, err
	}
}

// each calls f for every caller, several at a time.
func (w *worker) each(f func(i int)) {
	var wg sync.WaitGroup
	const some = 64
	for g := range some {
		wg.Go(func() {
			for i := g; i < w.Callers; i += some {
				f(i)
			}
		})
	}
	wg.Wait()
}
