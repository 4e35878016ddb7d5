// Package timelimit gives requests a time limit without a timer for each.
package timelimit

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// limited is a context with a time limit of its own.
type limited struct {
	context.Context // for its values

	wheel    *Wheel
	deadline time.Time
}

// Short is how much shorter than asked for a limit of less than a second may be.
const Short = 5 * time.Millisecond

// Within returns a context for a request that must be answered within d. It has
// the values of ctx and outlives it. A request under way is answered or runs
// into its limit, even if its caller has gone. The limit may be up to 5 ms
// shorter than d, and one of a second or more up to 50 ms. Within is safe for
// concurrent use and does not block.
func (w *Wheel) Within(ctx context.Context, d time.Duration) context.Context {
	return w.In(ctx, new(Limit), time.Now(), d)
}

// A Limit is memory for a context of [Wheel.In].
type Limit struct{ limited }

// In is Within for a d that begins at start. The context is in l, which must not
// be used again.
func (w *Wheel) In(ctx context.Context, l *Limit, start time.Time, d time.Duration) context.Context {
	end, every := start.Sub(w.start)+d, spoke
	if d >= coarse {
		every = coarseSpoke
	}
	l.limited = limited{ctx, w, w.start.Add(end - end%every)}
	return &l.limited
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

// A Wheel ends requests whose limits are near each other with one timer and one
// channel. See "Hashed and Hierarchical Timing Wheels", Varghese and Lauck,
// SOSP 1987. It has no goroutine, and no timer while there are no requests.
// Make one with [New].
type Wheel struct {
	start time.Time

	mu     sync.Mutex // guards spokes; nothing is locked inside
	spokes map[time.Duration]chan struct{}
}

// New returns a Wheel.
func New() *Wheel { return &Wheel{start: time.Now(), spokes: make(map[time.Duration]chan struct{})} }

// Requests whose ends are at most a spoke apart share a timer. Spokes of long
// limits are wider apart. Nearly all requests are answered long before their
// limits, so a timer wakes a process that sleeps for nothing.
const (
	spoke       = Short
	coarse      = time.Second // limits from here on, of releases for example
	coarseSpoke = 10 * spoke
)

var passed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// at returns a channel that is closed at t, one of the wheel's ticks.
func (w *Wheel) at(t time.Time) <-chan struct{} {
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
		time.AfterFunc(limits.Apart(left), func() { w.end(tick) })
	}
	return c
}

func (w *Wheel) end(tick time.Duration) {
	w.mu.Lock()
	c := w.spokes[tick]
	delete(w.spokes, tick)
	w.mu.Unlock()
	close(c)
}
