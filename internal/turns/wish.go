package turns

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Wish is the wish of a caller to learn that another call waits for the keys
// of its turns. The zero Wish is ready for use. Its methods are safe for
// concurrent use.
type Wish struct {
	once  sync.Once
	heard chan struct{} // made by C, closed by tell
	told  atomic.Bool
	over  atomic.Bool
}

// C returns the channel that is closed when the wish comes true. The first call
// runs ask, which must Ask the turns. C does not block for I/O.
func (w *Wish) C(ask func()) <-chan struct{} {
	w.once.Do(func() {
		w.heard = make(chan struct{})
		ask()
	})
	return w.heard
}

// End makes the turns that were asked forget w, before they have ended.
func (w *Wish) End() { w.over.Store(true) }

func (w *Wish) tell() {
	if !w.told.Swap(true) {
		close(w.heard)
	}
}

// wishes are those of a turn. The grant's mutex guards them.
type wishes struct {
	all  []*Wish
	came bool // by Want: those that come later come true at once
}

// add adds w, in place of those that are over.
func (ws *wishes) add(w *Wish) {
	ws.all = append(slices.DeleteFunc(ws.all, func(other *Wish) bool { return other.over.Load() }), w)
}

func (ws *wishes) tell() {
	for _, w := range ws.all {
		w.tell()
	}
	ws.all = nil
}
