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

// keepBriefly keeps an unused gate alive for a moment, so that a call that
// returns at once still finds what the gate knows of other processes.
func (s *gates) keepBriefly(gt *gate) {
	gt.retain()
	s.recent.add(gt, s.sweep)
}

// sweep leaves the gates that have been kept for long enough. sweep runs in
// the goroutine of a timer, as long as there are any.
func (s *gates) sweep() {
	for _, gt := range s.recent.turn(s.sweep) {
		gt.leave()
	}
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

// recentGates are the unused gates that are kept, each for one to two times
// limits.Busy. One timer serves all of them, because a timer for each would
// wake a process that sleeps between its turns. There is no timer while there
// are no such gates.
type recentGates struct {
	mu       sync.Mutex // guards what follows, with nothing locked inside
	old, new []*gate    // came before the last turn, and since
	sweeps   bool       // a timer is set, or its sweep runs
}

// add takes gt in. sweep must call turn.
func (l *recentGates) add(gt *gate, sweep func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.new = append(l.new, gt)
	if !l.sweeps {
		l.sweeps = true
		time.AfterFunc(limits.Apart(limits.Busy), sweep)
	}
}

// turn returns the gates that came before the last turn. turn sets the timer
// again if others are left.
func (l *recentGates) turn(sweep func()) (over []*gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	over, l.old, l.new = l.old, l.new, nil
	l.sweeps = len(l.old) > 0
	if l.sweeps {
		time.AfterFunc(limits.Apart(limits.Busy), sweep)
	}
	return over
}
