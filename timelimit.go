package guard

import (
	"context"
	"sync"
	"time"
)

// A limited is a context for one request to the store: the values of its parent, and a time limit of its own. It outlives
// its parent: a request that is under way is answered, or runs into its limit, whatever becomes of its caller. It costs no
// timer, for those are shared: its limit may be up to spoke shorter than what was asked.
type limited struct {
	context.Context // for its values

	wheel    *wheel
	deadline time.Time
}

// within returns a context for a request that must be answered within d.
func (w *wheel) within(ctx context.Context, d time.Duration) *limited {
	end := time.Since(w.start) + d
	return &limited{ctx, w, w.start.Add(end - end%spoke)}
}

// Deadline implements [context.Context].
func (c *limited) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements [context.Context].
func (c *limited) Done() <-chan struct{} { return c.wheel.at(c.deadline) }

// Err implements [context.Context].
func (c *limited) Err() error {
	if time.Now().Before(c.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}

// A wheel ends the requests whose limits are near each other with one timer and one channel: "Hashed and Hierarchical
// Timing Wheels", Varghese and Lauck, SOSP 1987. It has no goroutine, and no timer while nobody asks.
type wheel struct {
	start time.Time

	mu     sync.Mutex // guards spokes; nothing is locked inside
	spokes map[time.Duration]chan struct{}
}

// spoke is how far apart the ends of requests may be that share a timer.
const spoke = 5 * time.Millisecond

var passed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// at returns a channel that is closed at t, one of the wheel's ticks.
func (w *wheel) at(t time.Time) <-chan struct{} {
	left := time.Until(t)
	if left <= 0 {
		return passed
	}
	tick := t.Sub(w.start) / spoke
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.spokes[tick]
	if c == nil {
		c = make(chan struct{})
		w.spokes[tick] = c
		time.AfterFunc(left, func() { w.end(tick) })
	}
	return c
}

func (w *wheel) end(tick time.Duration) {
	w.mu.Lock()
	c := w.spokes[tick]
	delete(w.spokes, tick)
	w.mu.Unlock()
	close(c)
}
