package main

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

// The outage: calls come at a fixed rate, each with a key of its own, and the
// server is stopped for some time.
const (
	outageRate = 1000 // calls a second
	healthy    = 3 * time.Second
	stopped    = 10 * time.Second
	known      = 4 * time.Second // after the stop; MaxWait is 3 s, and a try takes up to 0.5 s
)

var outage = workload{
	name: "outage", own: true,
	title: "1,000 calls/s with keys of their own, MaxWait 3 s, while the server is stopped for 10 s",
	measure: func(b *bench, c call) ([]run, error) {
		all, each, err := b.measure(c.ctx, 1, job{Kind: "outage", Library: ours, Duration: stopped + 2*healthy},
			func(ctx context.Context) {
				sleep(ctx, started+healthy)
				_ = b.srv.Freeze()
				sleep(ctx, stopped)
				_ = b.srv.Thaw()
			})
		if err != nil {
			return nil, err
		}
		return b.one(c, all, each[0].Values), nil
	},
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// outageCall is one call.
type outageCall struct {
	at, took time.Duration // since the start
	err      error
}

// outageLoop makes calls at the fixed rate, and waits for them.
func (w *worker) outageLoop(ctx context.Context, start time.Time) (r result, err error) {
	g, err := w.openScaled()
	if err != nil {
		return r, err
	}
	defer closeAll([]*guard.Guard{g})
	g = g.With(guard.WithMaxWait(3 * time.Second))
	calls := make([]outageCall, int(w.Duration.Seconds())*outageRate)
	goroutines, sent := 0, int64(0)
	var open sync.WaitGroup
	for n := range calls {
		due := start.Add(time.Duration(n) * time.Second / outageRate)
		time.Sleep(time.Until(due))
		switch at := due.Sub(start); {
		case at == healthy+known:
			sent = w.wire.commands.Load()
		case at > healthy+known && at < healthy+stopped:
			goroutines = max(goroutines, runtime.NumGoroutine())
		case at == healthy+stopped:
			sent = w.wire.commands.Load() - sent
		}
		open.Go(func() {
			asked := time.Now()
			err := g.Do(ctx, guard.Key("bench", "own", n), w.nothing)
			calls[n] = outageCall{asked.Sub(start), time.Since(asked), err}
		})
	}
	open.Wait()
	r.Values = figures(calls)
	r.Values["goroutines"] = float64(goroutines)
	r.Values["commands/s"] = float64(sent) / (stopped - known).Seconds()
	return r, nil
}

// figures are those of the calls before the outage, while it is known, and after
// it.
func figures(calls []outageCall) values {
	var fine, refusals []time.Duration
	const back = healthy + stopped
	first, late := time.Duration(0), 0
	for _, c := range calls {
		switch end := c.at + c.took; {
		case c.at < healthy && end < healthy:
			fine = append(fine, c.took)
		case c.at > healthy+known && end < back && c.err != nil:
			refusals = append(refusals, c.took)
		case c.err == nil && end > back && (first == 0 || end < first):
			first = end
		}
		if c.at > back+time.Second/2 && c.err != nil {
			late++
		}
	}
	v, no := waits(fine), waits(refusals)
	v["refused p50 ms"], v["refused p99 ms"] = no["p50 ms"], no["p99 ms"]
	v["back ms"], v["refused later"] = ms(first-back), float64(late)
	return v
}
