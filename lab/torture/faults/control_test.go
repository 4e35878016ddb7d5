package faults

import (
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/testsize"
)

// control sleeps for a tick again and again, beside all tests. If it wakes late
// the machine is too busy to time anything.
type control struct {
	mu      sync.Mutex // guards late and ticking
	late    []lateness
	ticking time.Time // when the tick began that has not ended

	stop chan struct{} // closed to end run
	done sync.WaitGroup
}

// lateness is a tick that took longer, and when it ended.
type lateness struct {
	at time.Time
	by time.Duration
}

const (
	tick  = 5 * time.Millisecond
	quite = 50 * time.Millisecond // late
	// a bit late. If each step of many processes is so late, their answers are
	// later by far.
	bit = 10 * time.Millisecond
)

var machine = &control{stop: make(chan struct{})}

// run ends with end.
func (c *control) run() {
	c.done.Go(func() {
		for {
			start := time.Now()
			c.mu.Lock()
			c.ticking = start
			c.mu.Unlock()
			select {
			case <-c.stop:
				return
			case <-time.After(tick):
			}
			if by := time.Since(start) - tick; by > bit {
				c.mu.Lock()
				c.late = append(c.late, lateness{time.Now(), by})
				c.mu.Unlock()
			}
		}
	})
}

func (c *control) end() {
	close(c.stop)
	c.done.Wait()
}

// since returns how late the machine was itself, at most, since start, or 0 if
// it was never a bit late.
func (c *control) since(start time.Time) (most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.late {
		if l.at.After(start) {
			most = max(most, l.by)
		}
	}
	if by := time.Since(c.ticking) - tick; by > bit {
		most = max(most, by)
	}
	return most
}

// timed reports whether what began at start may be judged by how long it took:
// in the long form, on a machine that was not late itself.
func timed(t *testing.T, start time.Time) bool {
	t.Helper()
	return steady(t, start) && testsize.Pick(true, false)
}

// steady reports whether the machine was never quite late itself since start.
func steady(t *testing.T, start time.Time) bool {
	t.Helper()
	return onTime(t, start, quite)
}

func onTime(t *testing.T, start time.Time, allowed time.Duration) bool {
	t.Helper()
	late := machine.since(start)
	if late > allowed {
		t.Logf("the machine was %v late itself: nothing is timed", late)
	}
	return late <= allowed
}

// judged runs a round, which returns what went wrong. A round that went wrong
// on a machine that was a bit late itself is run again. It fails t for what
// went wrong while the machine was not. After ten rounds on a machine that
// always was, nobody can say.
func judged(t *testing.T, round func() string) {
	t.Helper()
	for range 10 {
		start := time.Now()
		wrong := round()
		if wrong == "" {
			return
		}
		if onTime(t, start, bit) {
			t.Error(wrong)
			return
		}
		t.Log(wrong)
	}
}
