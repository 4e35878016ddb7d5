package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
)

// This file is re-entry. A verb that finds a live lease on its key in its ctx
// runs inside that lease.

// A turnstile admits calls into a lease, one at a time, until the lease ends.
// The zero turnstile is open.
type turnstile struct {
	mu     sync.Mutex    // guards the fields below; nothing is locked inside
	slot   chan struct{} // taken by the call inside; the first call makes it
	shut   chan struct{} // closed when the lease ends; made with slot
	closed bool
	inside *Lease // of the call inside
}

// errShut says that a lease ended before a call could run inside it.
var errShut = errors.New("guard: the outer lease ended")

// errOccupied says that another call was inside until the wait was over.
var errOccupied = errors.New("guard: another call is inside the lease")

// errReleased says that the lease to run inside was released in the meantime.
var errReleased = fmt.Errorf("%w: the outer one was released", ErrNoLease)

// doors returns the slot that a call must take, and the channel whose close
// ends the wait for it.
func (s *turnstile) doors() (slot chan struct{}, shut <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slot == nil {
		s.slot, s.shut = make(chan struct{}, 1), make(chan struct{})
		if s.closed {
			close(s.shut)
		}
	}
	return s.slot, s.shut
}

// enter waits until a call may go in. It fails with errShut or errOccupied. It
// returns ErrNotAcquired if ctx ends.
func (s *turnstile) enter(ctx context.Context, p turns.Patience) error {
	if ctx.Err() != nil {
		return waitEnded(ctx)
	}
	slot, shut := s.doors()
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
	timer := time.NewTimer(time.Until(p.Until))
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
func (s *turnstile) leave() {
	s.mu.Lock()
	s.inside = nil
	s.mu.Unlock()
	<-s.slot
}

// close admits no more calls, and returns the lease of the call that is inside.
func (s *turnstile) close() (inside *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		if s.shut != nil {
			close(s.shut)
		}
	}
	return s.inside
}

// drain waits until no call is inside and then admits no more. It reports
// whether no call is inside. Calls that already wait go first. At a lost lease
// it does not wait, because there is nothing left to protect. A lease inside
// may have no function, so that only its Release ends it. drain waits for such
// a lease until limit, or little more.
func (s *turnstile) drain(limit time.Duration) (empty bool) {
	s.mu.Lock()
	slot, shut := s.slot, s.shut
	if slot == nil {
		s.closed = true
	}
	s.mu.Unlock()
	if slot == nil {
		return true
	}
	defer s.close()
	timer := time.NewTicker(max(limit, time.Millisecond))
	defer timer.Stop()
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
		case <-timer.C:
			if s.holdsBare() {
				return false
			}
		}
	}
}

// holdsBare reports whether the lease inside is one without a function.
func (s *turnstile) holdsBare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inside != nil && !s.inside.fn.called.Load()
}
