package tracing

import (
	"maps"
	"sync"

	"github.com/go-lockguard/guard"
)

// idlers are the families of the observer's guards, whose idle keys it can ask
// for.
type idlers struct {
	mu  sync.Mutex // guards all; held for a map access, or while all is copied
	all map[guard.IdleKeys]bool
}

func (i *idlers) add(family guard.IdleKeys) {
	i.mu.Lock()
	if i.all == nil {
		i.all = make(map[guard.IdleKeys]bool)
	}
	news := !i.all[family]
	i.all[family] = true
	i.mu.Unlock()
	if news {
		i.keys() // forgets families even if nobody collects
	}
}

// keys returns how many keys are idle, by the names of guards. keys forgets the
// families that are closed.
func (i *idlers) keys() map[string]int {
	i.mu.Lock()
	all := maps.Clone(i.all)
	i.mu.Unlock()
	sum := make(map[string]int)
	for family := range all {
		keys, open := family.Idle()
		for name, n := range keys {
			sum[name] += n
		}
		if !open {
			i.forget(family)
		}
	}
	return sum
}

func (i *idlers) forget(family guard.IdleKeys) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.all, family)
}
