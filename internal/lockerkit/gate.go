package lockerkit

import (
	"context"
	"sync"

	"github.com/go-lockguard/guard/locker"
)

// Gate is the entrance to a Locker. A Gate is closed until Open, and again from
// Close on. The Gate counts the calls in progress, so that Close can wait for
// them.
//
// The zero Gate with a Store is ready. A Gate is safe for concurrent use.
type Gate struct {
	Store string // name of the package, for errors

	mu    sync.Mutex    // guards state and down; never held across I/O or a callback
	state state         // only grows
	down  chan struct{} // made by the first Close, closed when shutDown has returned
	// calls counts the calls between Enter and Leave, and the goroutines of Go.
	// None begins once state is closed.
	calls sync.WaitGroup
}

type state int

const (
	fresh  state = iota
	begun        // Open was called, and may have failed
	open         // Open succeeded
	closed       // Close was called
)

// Open calls ready, which checks settings and makes what the Locker needs. If
// ready returns an error, Open returns it and the Gate stays closed. A second
// Open is an ErrInvalidOption.
func (g *Gate) Open(ready func() error) error {
	if !g.step(fresh, begun) {
		return Invalid(g.Store, "the locker was opened before: each guard.New needs one of its own")
	}
	if err := ready(); err != nil {
		return err
	}
	g.step(begun, open)
	return nil
}

// step goes from one state to another. It reports whether the Gate was in the
// first.
func (g *Gate) step(from, to state) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != from {
		return false
	}
	g.state = to
	return true
}

// Enter begins a call, which ends with Leave. It returns an ErrInvalidOption
// before Open, and ErrClosed after Close.
func (g *Gate) Enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case open:
		g.calls.Add(1)
		return nil
	case closed:
		return locker.ErrClosed
	}
	return Invalid(g.Store, "the locker is not open: pass it to guard.New")
}

// Leave ends a call that Enter began.
func (g *Gate) Leave() { g.calls.Done() }

// Go runs f in a goroutine that may outlive the call in which it begins. The
// goroutine counts as a call, so Go may only be called between Enter and Leave.
func (g *Gate) Go(f func()) { g.calls.Go(f) }

// Wait blocks until no call is in progress. It is for the shutDown of Close.
func (g *Gate) Wait() { g.calls.Wait() }

// Close turns new calls away. The first Close runs shutDown in a goroutine of
// its own. Every Close blocks until shutDown has returned or ctx ends. If ctx
// ends first, Close returns its error, and shutDown goes on.
//
// If the Gate is not open, Close does nothing.
func (g *Gate) Close(ctx context.Context, shutDown func()) error {
	down := g.shut(shutDown)
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

func (g *Gate) shut(shutDown func()) (down chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != open {
		return g.down // nil if it was never open
	}
	g.state, g.down = closed, make(chan struct{})
	down = g.down
	go func() { // ends with shutDown
		defer close(down)
		shutDown()
	}()
	return down
}
