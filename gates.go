package guard

import (
	"hash/maphash"
	"sync"
)

// gates finds the gate of a key: an entry for each key that somebody in this process wants or holds, no more. Two keys
// never share a gate.
type gates struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu    sync.Mutex // guards gates and the refs of each; held for a map access
	gates map[string]*gate
}

func (s *gates) shard(key string) *shard {
	return &s.shards[maphash.String(s.seed, key)%uint64(len(s.shards))]
}

// enter returns the gate of key and keeps it alive until leave.
func (s *gates) enter(key string) *gate {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	gt := sh.gates[key]
	if gt == nil {
		gt = &gate{key: key}
		if sh.gates == nil {
			sh.gates = make(map[string]*gate)
		}
		sh.gates[key] = gt
	}
	gt.refs++
	return gt
}

// leave undoes one enter.
func (s *gates) leave(gt *gate) {
	sh := s.shard(gt.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if gt.refs--; gt.refs == 0 {
		delete(sh.gates, gt.key)
	}
}

// find returns the gate of key, or nil if nobody here wants it.
func (s *gates) find(key string) *gate {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.gates[key]
}

// all returns the gates of this moment.
func (s *gates) all() []*gate {
	var all []*gate
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, gt := range sh.gates {
			all = append(all, gt)
		}
		sh.mu.Unlock()
	}
	return all
}
