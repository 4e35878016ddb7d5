package guard

import (
	"sync"

	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// A family is the state shared by a Guard and its copies.
type family struct {
	locker locker.Locker
	engine *turns.Engine
	hints  hints
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
