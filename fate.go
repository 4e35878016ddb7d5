package guard

import (
	"sync"
	"time"
)

// A fate is how far a lease has come to its end: whether it was lost, and
// how its release went. It does no I/O. Its methods are safe for concurrent
// use.
//
// Invariant: cause does not change once it is set, and is not set after
// released. releasing, released and settled become true in this order. err is
// nil until settled.
type fate struct {
	mu        sync.Mutex    // guards the fields below; nothing is locked inside
	cause     error         // why the lease was lost
	lostAt    time.Time     // when it was lost, or could no longer be trusted if that was earlier
	releasing bool          // there has been a first Release
	released  bool          // the first Release is past the re-entrant calls
	settled   bool          // the first Release has its result
	err       error         // that result
	over      chan struct{} // closed when the result is there; the second Release makes it
}

// lose records that the lease was lost. It reports false if it has been lost or
// released before.
func (f *fate) lose(cause error, at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause != nil || f.released {
		return false
	}
	f.cause, f.lostAt = cause, at
	return true
}

// begin returns nil to the first caller that releases the lease. It returns a
// channel to later callers, which is closed when the result is there.
func (f *fate) begin() (over <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.releasing {
		f.releasing = true
		return nil
	}
	if f.over == nil {
		f.over = make(chan struct{})
		if f.settled {
			close(f.over)
		}
	}
	return f.over
}

// release records that the lease is released. It returns why the lease was
// lost, if it was.
func (f *fate) release() (cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = true
	return f.cause
}

// settle records the result of the release.
func (f *fate) settle(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.settled = err, true
	if f.over != nil {
		close(f.over)
	}
}

// result returns the result of the release. It is nil before there is one.
func (f *fate) result() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// state returns whether the lease is released, and why it was lost, if it was.
func (f *fate) state() (released bool, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.released, f.cause
}

// lossTime returns when the lease was lost.
func (f *fate) lossTime() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lostAt
}
