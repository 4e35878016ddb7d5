//go:build lockorder

package lockorder

import (
	"fmt"
	"sync"

	"github.com/go-lockguard/guard/internal/goroutine"
)

// Gate is the mutex of a gate, the first in the order.
type Gate struct{ ranked[first] }

// Grant is the mutex of a grant.
type Grant struct{ ranked[second] }

// Renewer is the mutex of the renewer, the last in the order.
type Renewer struct{ ranked[third] }

type (
	first  struct{}
	second struct{}
	third  struct{}
)

func (first) rank() int  { return 1 }
func (second) rank() int { return 2 }
func (third) rank() int  { return 3 }

// ranked is a mutex that panics when it is locked out of order.
type ranked[R interface{ rank() int }] struct{ mu sync.Mutex }

// Lock locks m, or panics if that is out of order.
func (m *ranked[R]) Lock() {
	var r R
	held.enter(r.rank())
	m.mu.Lock()
}

// Unlock unlocks m.
func (m *ranked[R]) Unlock() {
	m.mu.Unlock()
	var r R
	held.leave(r.rank())
}

// held is which ranks each goroutine holds.
var held = ranks{of: make(map[int][4]bool)}

type ranks struct {
	mu sync.Mutex // guards of
	of map[int][4]bool
}

func (h *ranks) enter(rank int) {
	id := goroutine.Number()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.of[id]
	for r := rank; r < len(now); r++ {
		if now[r] {
			panic(fmt.Sprintf("lock order: %d is locked while %d is held", rank, r))
		}
	}
	now[rank] = true
	h.of[id] = now
}

func (h *ranks) leave(rank int) {
	id := goroutine.Number()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.of[id]
	now[rank] = false
	h.of[id] = now
	if now == [4]bool{} {
		delete(h.of, id)
	}
}
