package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// takeOver lets two processes pass a key to each other. One process holds it
// until the other waits, and some milliseconds more. It comes back only when
// the other has the key. So each wait is for a key that another process holds.
// The time that counts begins at the end of the other's section.
func (w *worker) takeOver(ctx context.Context, start time.Time) (result, error) {
	end := start.Add(w.Duration)
	ctx, cancel := context.WithCancel(ctx)
	defer time.AfterFunc(time.Until(end), cancel).Stop()
	defer cancel()

	var r result
	me, a := int64(w.Proc+1), w.arena
	time.Sleep(time.Until(start))
	for time.Now().Before(end) {
		ran := false
		r.Requests++
		a.waiting[w.Proc].Store(1)
		err := w.lock.Do(ctx, hotKey, func() {
			ran = true
			a.enter(0)
			defer a.leave(0)
			if last := a.holder.Swap(me); last != 0 && last != me {
				r.Waits = append(r.Waits, time.Duration(time.Now().UnixNano()-a.releasedAt.Load()))
			}
			a.waiting[w.Proc].Store(0)
			w.update(ctx)
			until(end, func() bool { return a.waiting[1-w.Proc].Load() == 1 })
			rest()
			r.Trips = append(r.Trips, w.trip(ctx))
			rest()
			a.releasedAt.Store(time.Now().UnixNano())
		})
		switch {
		case ran:
			r.Sections++
			r.failed(err)
			until(end, func() bool { return a.holder.Load() != me })
		case ctx.Err() == nil:
			r.Refusals = append(r.Refusals, w.MaxWait)
		}
	}
	return r, w.sectionError()
}

// rest sleeps a little. It is called before the trip and before the release, so
// that both start from rest. Then the processor has slept and the connections
// have been idle.
func rest() { time.Sleep(time.Millisecond + rand.N(2*time.Millisecond)) }

// trip measures a round trip.
func (w *worker) trip(ctx context.Context) time.Duration {
	sent := time.Now()
	_ = w.rdb.Ping(context.WithoutCancel(ctx)).Err()
	return time.Since(sent)
}

// until returns when the condition holds, or at end. The condition depends on
// another process.
func until(end time.Time, condition func() bool) {
	for !condition() && time.Now().Before(end) {
		time.Sleep(100 * time.Microsecond)
	}
}
