package turns

import (
	"context"
	"sync"
)

// errands are the engine's own goroutines: renewals in flight, and timers with
// something to do. Each begins under another errand or under a grant that has
// not ended. All grants have ended before wait, so none begins after it.
type errands struct {
	mu      sync.Mutex // guards what follows; nothing is locked inside
	running int
	over    chan struct{} // made by wait, closed by the last errand
}

func (e *errands) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running++
}

func (e *errands) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running--; e.running == 0 && e.over != nil {
		close(e.over)
		e.over = nil
	}
}

// wait returns true when no errand is left, or false when ctx ends.
func (e *errands) wait(ctx context.Context) bool {
	e.mu.Lock()
	if e.running > 0 && e.over == nil {
		e.over = make(chan struct{})
	}
	over := e.over
	e.mu.Unlock()
	if over == nil {
		return true
	}
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}
