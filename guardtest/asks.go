package guardtest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/go-lockguard/guard"
)

// asks is an observer that records which keys were asked for.
type asks struct {
	guard.NopObserver

	asked *keySet
}

func (a asks) WaitStart(ctx context.Context, w guard.WaitInfo) context.Context {
	a.asked.add(w.Key)
	return ctx
}

// keySet is a set of keys. It is safe for concurrent use.
type keySet struct {
	mu   sync.Mutex // guards keys
	keys map[string]bool
}

func (s *keySet) add(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = make(map[string]bool)
	}
	s.keys[key] = true
}

// sorted returns the keys of s.
func (s *keySet) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.keys))
}

// without returns the keys of s that are not in other.
func (s *keySet) without(other *keySet) []string {
	known := other.sorted()
	return slices.DeleteFunc(s.sorted(), func(key string) bool {
		_, found := slices.BinarySearch(known, key)
		return found
	})
}
