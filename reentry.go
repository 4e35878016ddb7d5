package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errReleased says that the lease one wanted to run inside was released in the meantime.
var errReleased = fmt.Errorf("%w: the outer one was released", ErrNoLease)

// findLease returns the innermost lease on key in ctx that has not been released, or nil.
func findLease(ctx context.Context, f *family, key string) *Lease {
	for l := leaseIn(ctx); l != nil; l = l.outer {
		if l.key == key && l.guard.family == f && !l.isReleased() {
			return l
		}
	}
	return nil
}

// root is the lease whose turn l belongs to: l itself, unless it runs inside another.
func (l *Lease) root() *Lease {
	for l.within != nil {
		l = l.within
	}
	return l
}

// runsInside reports whether l runs inside outer.
func (l *Lease) runsInside(outer *Lease) bool {
	for l != nil && l.within != outer {
		l = l.within
	}
	return l != nil
}

// admit waits until a call may run inside l: one at a time. It fails with ErrLeaseLost, with errReleased if l ends first,
// or as any wait does.
func (l *Lease) admit(ctx context.Context, p patience) error {
	if ctx.Err() != nil {
		return waitEnded(ctx)
	}
	slot, gone := l.turnstile()
	select {
	case slot <- struct{}{}:
		return l.admitted()
	default:
	}
	if p.once {
		return l.refusal()
	}
	timer := time.NewTimer(time.Until(p.until))
	defer timer.Stop()
	select {
	case slot <- struct{}{}:
		return l.admitted()
	case <-gone:
		if err := l.Err(); !errors.Is(err, ErrNoLease) {
			return err
		}
		return errReleased
	case <-timer.C:
		return l.refusal()
	case <-ctx.Done():
		return waitEnded(ctx)
	}
}

// admitted looks at the lease again after the wait.
func (l *Lease) admitted() error {
	err := l.Err()
	if err == nil {
		return nil
	}
	<-l.slot
	if errors.Is(err, ErrNoLease) {
		return errReleased
	}
	return err
}

func (l *Lease) refusal() error {
	gr := l.root().grant
	return &HeldError{Key: l.key, Remaining: max(0, time.Until(gr.expiry())), Holder: gr.claim.Holder}
}

// turnstile returns the slot that a call inside l must take, and what ends the wait for it.
func (l *Lease) turnstile() (slot chan struct{}, gone <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slot == nil {
		l.slot = make(chan struct{}, 1)
		l.gone = make(chan struct{})
		if l.cause != nil || l.released {
			close(l.gone)
		}
	}
	return l.slot, l.gone
}

// setInner notes the lease of the call that runs inside l, and returns why l is lost, if it is.
func (l *Lease) setInner(inner *Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inner = inner
	return l.cause
}

// awaitInner waits until no call runs inside l, and lets no more in. Calls that already wait for the slot go first. A
// lost lease does not wait: there is nothing left to protect.
func (l *Lease) awaitInner() {
	l.mu.Lock()
	slot, gone := l.slot, l.gone
	if slot == nil {
		l.released = true
	}
	l.mu.Unlock()
	if slot == nil {
		return
	}
	select {
	case slot <- struct{}{}:
	case <-gone:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	if l.cause == nil {
		close(l.gone)
	}
}

// leaveOuter ends a lease that runs inside another, and returns why that one was lost, if it was.
func (l *Lease) leaveOuter() error {
	l.mu.Lock()
	err := l.cause
	l.mu.Unlock()
	if root := l.root(); err == nil {
		err = root.grant.err(root)
	}
	l.cancel(nil)
	_ = l.within.setInner(nil)
	<-l.within.slot
	return err
}
