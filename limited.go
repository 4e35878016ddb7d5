package guard

import (
	"context"
	"sync"
	"time"
)

// limited is a context with a time limit, whose timer is set only when somebody waits for its end: most requests set a
// deadline on their connection instead, and are answered long before.
type limited struct {
	context.Context // the parent

	deadline time.Time

	mu     sync.Mutex // guards what follows; nothing is locked inside
	timed  context.Context
	cancel context.CancelFunc
	over   bool
}

// withLimit is context.WithTimeout, but for the timer. cancel must be called when the request is over.
func withLimit(parent context.Context, d time.Duration) (ctx *limited, cancel func()) {
	deadline := time.Now().Add(d)
	if sooner, ok := parent.Deadline(); ok && sooner.Before(deadline) {
		deadline = sooner
	}
	c := &limited{Context: parent, deadline: deadline}
	return c, c.end
}

// Deadline implements [context.Context].
func (c *limited) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements [context.Context].
func (c *limited) Done() <-chan struct{} { return c.context().Done() }

// Err implements [context.Context].
func (c *limited) Err() error {
	c.mu.Lock()
	timed, over := c.timed, c.over
	c.mu.Unlock()
	switch {
	case timed != nil:
		return timed.Err()
	case over:
		return context.Canceled
	case !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// AfterFunc spares package context a goroutine for contexts made of this one.
func (c *limited) AfterFunc(f func()) func() bool { return context.AfterFunc(c.context(), f) }

// context returns the parent with a timer.
func (c *limited) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
		if c.over {
			c.cancel()
		}
	}
	return c.timed
}

func (c *limited) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.cancel != nil {
		c.cancel()
	}
}
