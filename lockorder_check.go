//go:build lockorder

package guard

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"sync"
)

type (
	gateMutex    struct{ ranked[first] }
	grantMutex   struct{ ranked[second] }
	renewerMutex struct{ ranked[third] }
)

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

func (m *ranked[R]) Lock() {
	var r R
	held.enter(r.rank())
	m.mu.Lock()
}

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
	id := goroutine()
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
	id := goroutine()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.of[id]
	now[rank] = false
	h.of[id] = now
	if now == [4]bool{} {
		delete(h.of, id)
	}
}

// goroutine is the number of the calling goroutine, as a stack trace begins with it.
func goroutine() int {
	var buf [64]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(text, []byte(" "))
	id, err := strconv.Atoi(string(number))
	if err != nil {
		panic(err)
	}
	return id
}
