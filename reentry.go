package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/turns"
)

// This file is re-entry. A verb that finds a live lease on its key in its ctx
// runs inside that lease.

// An entrance admits calls into a lease, one at a time, until the lease ends.
// The zero entrance is open.
type entrance struct {
	mu     sync.Mutex    // guards the fields below; nothing is locked inside
	slot   chan struct{} // taken by the call inside; the first call makes it
	shut   chan struct{} // closed when the lease ends; made with slot
	closed bool
	inside innerLease // the call inside
}

// An innerLease is the lease of a call that runs inside another lease.
type innerLease interface {
	lose(cause error) // the lease around it is lost
	runs() bool       // a function runs under it, so it will end
}

// errShut says that a lease ended before a call could run inside it.
var errShut = errors.New("guard: the outer lease ended")

// errOccupied says that another call was inside until the wait was over.
var errOccupied = errors.New("guard: another call is inside the lease")

// errReleased says that the lease to run inside was released in the meantime.
var errReleased = fmt.Errorf("%w: the outer one was released", ErrNoLease)

// channels returns the slot that a call must take, and the channel whose close
// ends the wait for it.
func (e *entrance) channels() (slot chan struct{}, shut <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.slot == nil {
		e.slot, e.shut = make(chan struct{}, 1), make(chan struct{})
		if e.closed {
			close(e.shut)
		}
	}
	return e.slot, e.shut
}

// enter waits until a call may go in. It fails with errShut or errOccupied. It
// returns ErrNotAcquired if ctx ends.
func (e *entrance) enter(ctx context.Context, p turns.Patience) error {
	if ctx.Err() != nil {
		return waitEnded(ctx)
	}
	slot, shut := e.channels()
	select {
	case <-shut:
		return errShut
	default:
	}
	select {
	case slot <- struct{}{}:
		return nil
	default:
	}
	if p.Once {
		return errOccupied
	}
	timer := time.NewTimer(limits.Apart(time.Until(p.Until)))
	defer timer.Stop()
	select {
	case slot <- struct{}{}:
		return nil
	case <-shut:
		return errShut
	case <-timer.C:
		return errOccupied
	case <-ctx.Done():
		return waitEnded(ctx)
	}
}

// leave lets the next call in.
func (e *entrance) leave() {
	e.mu.Lock()
	e.inside = nil
	e.mu.Unlock()
	<-e.slot
}

// close admits no more calls, and returns the one that is inside, or nil.
func (e *entrance) close() (inside innerLease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		if e.shut != nil {
			close(e.shut)
		}
	}
	return e.inside
}

// drain waits until no call is inside and then admits no more. It reports
// whether no call is inside. Calls that already wait go first. At a lost lease
// it does not wait, because there is nothing left to protect. A lease inside
// may have no function, so that only its Release ends it. drain waits for such
// a lease until limit, or little more.
func (e *entrance) drain(limit time.Duration) (empty bool) {
	e.mu.Lock()
	slot, shut := e.slot, e.shut
	if slot == nil {
		e.closed = true
	}
	e.mu.Unlock()
	if slot == nil {
		return true
	}
	defer e.close()
	ticker := time.NewTicker(max(limit, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case slot <- struct{}{}:
			return true
		case <-shut:
			select {
			case slot <- struct{}{}:
				return true
			default:
				return false
			}
		case <-ticker.C:
			if e.waitsForRelease() {
				return false
			}
		}
	}
}

// waitsForRelease reports whether the lease inside is one without a function.
func (e *entrance) waitsForRelease() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inside != nil && !e.inside.runs()
}
