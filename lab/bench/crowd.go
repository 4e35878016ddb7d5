package main

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// holdOne holds the hot key while a crowd in another process waits for it.
func (w *worker) holdOne() measurement {
	held, err := w.hold(hotKey)
	return func(_ context.Context, start time.Time) (result, error) {
		if err != nil {
			return result{}, err
		}
		w.arena.enter(0)
		time.Sleep(time.Until(start.Add(w.Duration)))
		w.arena.slots[0].count.Add(1)
		w.arena.leave(0)
		r := result{Sections: 1}
		if held.Lost() {
			r.failed(errHolderLost)
		}
		held.Release()
		return r, nil
	}
}

// waitInCrowd lets all callers of this process wait for a key that does not
// become free, and measures the cost. All are cancelled at once, shortly before
// the holder releases the key.
func (w *worker) waitInCrowd(ctx context.Context, start time.Time) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	settled, enough := start.Add(w.Duration/5), start.Add(w.Duration*4/5)

	var wg sync.WaitGroup
	results := make([]result, w.Callers)
	heapBefore := heap()
	time.Sleep(time.Until(start))
	for i := range results {
		wg.Go(func() {
			if err := w.lock.Do(ctx, hotKey, func() { w.touch(0); results[i].Sections++ }); ctx.Err() == nil {
				results[i].failed(err)
			}
		})
	}
	time.Sleep(time.Until(settled))
	before, since := w.wire.commands.Load(), time.Now()
	time.Sleep(time.Until(enough))
	commands := float64(w.wire.commands.Load()-before) / time.Since(since).Seconds()
	perWaiter := (heap() - heapBefore) / float64(w.Callers)

	cancelled := time.Now()
	cancel()
	wg.Wait()
	all := result{Requests: int64(w.Callers), Values: map[string]float64{
		"commands/s":  commands,
		"heap/waiter": perWaiter,
		"cancel ms":   ms(time.Since(cancelled)),
	}}
	for _, r := range results {
		all.merge(r)
	}
	return all, nil
}

// heap returns the bytes of live objects on the heap, without stacks.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what the first one has only found to be garbage
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
