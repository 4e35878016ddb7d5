package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
)

// Re-entry: a verb that finds a live lease on its key in its ctx runs inside
// that lease.

// A turnstile lets the calls that run inside a lease in, one at a time, until
// the lease ends. The zero turnstile is open.
type turnstile struct {
	mu     sync.Mutex    // guards what follows; nothing is locked inside
	slot   chan struct{} // taken by the call inside; made by the first one
	shut   chan struct{} // closed when the lease ends; made with slot
	closed bool
	inside *Lease // of the call inside
}

// errShut says that a lease ended before a call could run inside it.
var errShut = errors.New("guard: the outer lease ended")

// errOccupied says that another call was inside until the wait was over.
var errOccupied = errors.New("guard: another call is inside the lease")

// errReleased says that the lease one wanted to run inside was released in the
// meantime.
var errReleased = fmt.Errorf("%w: the outer one was released", ErrNoLease)

// doors returns the slot that a call must take, and what ends the wait for it.
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

// enter waits until a call may go in. It fails with errShut or errOccupied, or
// as any wait does.
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

// close lets no more calls in, and returns the lease of the one that is.
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

// drain waits until no call is inside, lets no more in, and reports whether
// none is. Calls that already wait go first. At a lost lease it does not wait:
// there is nothing left to protect. For a lease without a function, which
// nothing ends but its Release, it waits for limit, or little more.
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
			return false
		case <-timer.C:
			if s.holdsBare() {
				return false
			}
		}
	}
}

// holdsBare reports whether what is inside is a lease without a function.
func (s *turnstile) holdsBare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inside != nil && !s.inside.called.Load()
}

// admit waits until a call may run inside l. It fails with ErrLeaseLost, with
// errReleased if l is released first, or as any wait does.
func (l *Lease) admit(ctx context.Context, p turns.Patience) error {
	start := time.Now()
	err := l.stile.enter(ctx, p)
	switch {
	case errors.Is(err, errOccupied):
		holder, remaining := l.turn.Held()
		return &HeldError{Key: l.key, Remaining: remaining, Holder: holder, waited: waitedSince(start, p)}
	case err != nil && !errors.Is(err, errShut):
		return err
	}
	ended := l.Err()
	if err == nil && ended == nil {
		return nil
	}
	if err == nil {
		l.stile.leave()
	}
	if ended == nil || errors.Is(ended, ErrNoLease) {
		return errReleased
	}
	return ended
}

// contain notes the lease of the call that runs inside l, and returns why l is
// lost, if it is.
func (l *Lease) contain(inner *Lease) error {
	l.stile.mu.Lock()
	l.stile.inside = inner
	l.stile.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}
