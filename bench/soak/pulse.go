package main

import (
	"cmp"
	"slices"
	"time"
)

// A machine may be too busy to let a process run for seconds. Nobody can end a wait in time who does not run, so each worker
// notes when its clock did not tick.
const (
	tick  = 20 * time.Millisecond
	stall = 150 * time.Millisecond
)

// beat notes the stalls of this process until over is closed.
func (p *pulse) beat(over <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := now()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		at := now()
		if at-last > int64(stall) {
			s := &p.spans[p.stalls.Load()%stallsKept]
			s.from.Store(last)
			s.to.Store(at)
			p.stalls.Add(1)
		}
		last = at
	}
}

// feel reads the stalls that a worker has noted since the last time; b.mu is held.
func (b *book) feel(proc int) {
	p := &b.arena.pulses[proc]
	for n := p.stalls.Load(); b.felt[proc] < n; b.felt[proc]++ {
		s := &p.spans[b.felt[proc]%stallsKept]
		from, to := s.from.Load(), s.to.Load()
		b.stall = max(b.stall, time.Duration(to-from))
		w := whose{proc, b.lives[proc]}
		b.stops[w] = merge(b.stops[w], span{from, to})
	}
}

// merge adds a span to others, which are in order and apart.
func merge(spans []span, s span) []span {
	spans = append(spans, s)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	apart := spans[:1]
	for _, s := range spans[1:] {
		if last := &apart[len(apart)-1]; s.from <= last.to {
			last.to = max(last.to, s.to)
		} else {
			apart = append(apart, s)
		}
	}
	return apart
}
