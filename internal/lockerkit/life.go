package lockerkit

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// Life takes a Locker from Open to Close. A Life is closed until Open, and again
// from Close on. The Life counts the calls in progress, so that Close can wait
// for them. A Locker that works between calls too does so in goroutines of
// Serve.
//
// The zero Life with a Store is ready. A Life is safe for concurrent use.
type Life struct {
	Store string // name of the package, for errors

	mu    sync.Mutex    // guards state and down; never held across I/O or a callback
	state state         // only grows
	down  chan struct{} // made by the first Close, closed when shutDown has returned
	// calls counts the calls between Enter and Leave, and the goroutines of Go.
	// None begins once state is closed.
	calls sync.WaitGroup

	ctx     context.Context // of the goroutines of Serve; made by Open
	cancel  context.CancelFunc
	service sync.WaitGroup // those goroutines
}

type state int

const (
	fresh  state = iota
	begun        // Open was called, and may have failed
	open         // Open succeeded
	closed       // Close was called
)

// Open calls ready, which checks settings and makes what the Locker needs. If
// ready returns an error, Open returns it and the Life stays closed. A second
// Open is an ErrInvalidOption.
func (l *Life) Open(ready func() error) error {
	if !l.step(fresh, begun) {
		return Invalid(l.Store, "the locker was opened before: each guard.New needs one of its own")
	}
	l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // of the Locker, until Close
	if err := ready(); err != nil {
		return err
	}
	l.step(begun, open)
	return nil
}

// step goes from one state to another. It reports whether the Life was in the
// first.
func (l *Life) step(from, to state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != from {
		return false
	}
	l.state = to
	return true
}

// Enter begins a call, which ends with Leave. It returns an ErrInvalidOption
// before Open, and ErrClosed after Close.
func (l *Life) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case open:
		l.calls.Add(1)
		return nil
	case closed:
		return locker.ErrClosed
	}
	return Invalid(l.Store, "the locker is not open: pass it to guard.New")
}

// Leave ends a call that Enter began.
func (l *Life) Leave() { l.calls.Done() }

// Go runs f in a goroutine that may outlive the call in which it begins. The
// goroutine counts as a call, so Go may only be called between Enter and Leave.
func (l *Life) Go(f func()) { l.calls.Go(f) }

// Wait blocks until no call is in progress. It is for the shutDown of Close.
func (l *Life) Wait() { l.calls.Wait() }

// Context returns the context that End ends.
func (l *Life) Context() context.Context { return l.ctx }

// Serve runs f in a goroutine of the Locker, which must end with Context. Serve
// may be called by the ready of Open, and between Enter and Leave.
func (l *Life) Serve(f func()) { l.service.Go(f) }

// End ends the goroutines of Serve and waits for them. It is for the shutDown
// of Close.
func (l *Life) End() {
	l.cancel()
	l.service.Wait()
}

// Close turns new calls away. The first Close runs shutDown in a goroutine of
// its own. Every Close blocks until shutDown has returned or ctx ends. If ctx
// ends first, Close returns its error, and shutDown goes on.
//
// If the Life is not open, Close does nothing.
func (l *Life) Close(ctx context.Context, shutDown func()) error {
	down := l.shut(shutDown)
	if down == nil {
		return nil
	}
	select {
	case <-down:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Life) shut(shutDown func()) (down chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != open {
		return l.down // nil if it was never open
	}
	l.state, l.down = closed, make(chan struct{})
	down = l.down
	go func() { // ends with shutDown
		defer close(down)
		shutDown()
	}()
	return down
}

// Pause waits for d, or for done. It reports whether d has passed.
func Pause(d time.Duration, done <-chan struct{}) bool {
	t := time.NewTimer(limits.Apart(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}
