package guard

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// A family is the state shared by a Guard and its copies.
type family struct {
	locker locker.Locker
	engine *turns.Engine
	hints  hints
	outage outage
}

// isClosing reports whether Close was called.
func (f *family) isClosing() bool {
	select {
	case <-f.engine.Closing():
		return true
	default:
		return false
	}
}

// hints records the hints that the guards of a family have given.
type hints struct {
	names sync.Map // names that New and With have given its guards
	given sync.Map // by hint
}

type hint struct{ about, name string }

// first reports whether the guard of that name has not given a hint before.
func (h *hints) first(about, name string) bool {
	_, before := h.given.LoadOrStore(hint{about, name}, nil)
	return !before
}

// outagePause keeps a locker that answers now and then from filling the log. A
// cluster that has lost one shard answers like that.
const outagePause = 10 * time.Second

// An outage is the time from the first missing answer of the store to the next
// clear one. An outage that begins within outagePause of the last log of
// another is not logged until that pause is over.
type outage struct {
	on atomic.Bool // there is an outage; set under mu, read without it by every clear answer

	mu     sync.Mutex // guards the fields below; held for a few instructions
	since  time.Time  // when it began
	logged time.Time  // when this outage, or the last one before it, was logged
	told   bool       // it was logged
}

// begin notes a missing answer. It reports whether to log that.
func (o *outage) begin(now time.Time) (tell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on.Swap(true) {
		o.since, o.told = now, false
	}
	if o.told || (!o.logged.IsZero() && now.Sub(o.logged) < outagePause) {
		return false
	}
	o.logged, o.told = now, true
	return true
}

// end notes a clear answer. It reports whether that ends an outage that was
// logged.
func (o *outage) end(now time.Time) (lasted time.Duration, tell bool) {
	if !o.on.Load() {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return now.Sub(o.since), o.on.Swap(false) && o.told
}
