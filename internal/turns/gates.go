package turns

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/keyescape"
	"github.com/go-lockguard/guard/internal/limits"
)

// gates finds the gate of a key. There is an entry for each key that a call of
// this process wants or holds, and no more. Two keys never share a gate.
type gates struct {
	*common
	seed   maphash.Seed
	shards [64]shard
	recent recentGates
}

type shard struct {
	// mu guards gates and the refs of each. A method holds mu for a map
	// access, with nothing locked inside.
	mu    sync.Mutex
	gates map[string]*gate // by name
}

func (s *gates) shard(name string) *shard {
	return &s.shards[maphash.String(s.seed, name)%uint64(len(s.shards))]
}

// enter returns the gate of key and keeps it alive until leave.
func (s *gates) enter(key string) *gate {
	name := keyescape.Plain(key)
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	gt := sh.gates[name]
	if gt == nil {
		gt = &gate{common: s.common, home: s, key: key, name: name}
		if sh.gates == nil {
			sh.gates = make(map[string]*gate)
		}
		sh.gates[name] = gt
	}
	gt.refs++
	return gt
}

// find returns the gate of the key with the given name in the store, or nil if
// no call of this process wants it.
func (s *gates) find(name string) *gate {
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.gates[name]
}

// all returns the gates of this moment in the order of their names, so that
// what is done to each of them repeats in virtual time.
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
	slices.SortFunc(all, func(a, b *gate) int { return strings.Compare(a.name, b.name) })
	return all
}

// recentGates are the unused gates that are kept alive, each for one to two
// times limits.Busy, so that a call that returns at once still finds what the
// gate knows of other processes. One timer serves all of them, because a timer
// for each would wake a process that sleeps between its turns. There is no
// timer while there are no such gates.
type recentGates struct {
	mu       sync.Mutex // guards what follows, with nothing locked inside
	old, new []*gate    // came before the last sweep, and since
}

// keep keeps gt alive for a moment.
func (l *recentGates) keep(gt *gate) {
	gt.retain()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.old)+len(l.new) == 0 {
		time.AfterFunc(limits.Apart(limits.Busy), l.sweep)
	}
	l.new = append(l.new, gt)
}

// sweep leaves the gates that have been kept for long enough. It sets the timer
// again if others are left.
func (l *recentGates) sweep() {
	l.mu.Lock()
	over := l.old
	if l.old, l.new = l.new, nil; len(l.old) > 0 {
		time.AfterFunc(limits.Apart(limits.Busy), l.sweep)
	}
	l.mu.Unlock()
	for _, gt := range over {
		gt.leave()
	}
}
