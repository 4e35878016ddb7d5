package tracing

import (
	"sync"
	"time"
)

// holds are the holds of one series that run now, oldest first. Each hold is
// added when it begins.
type holds struct {
	mu          sync.Mutex // guards the list; held for a few instructions
	first, last *stage
}

func (h *holds) add(s *stage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.since, s.prev = time.Now(), h.last
	if h.last != nil {
		h.last.next = s
	} else {
		h.first = s
	}
	h.last = s
}

func (h *holds) remove(s *stage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		h.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		h.last = s.prev
	}
}

// oldest returns how long the first hold has lasted, and its MaxHold. Both are
// 0 if there is none.
func (h *holds) oldest() (lasts, limit time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == nil {
		return 0, 0
	}
	return time.Since(h.first.since), h.first.limit
}
