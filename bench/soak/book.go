package main

import (
	"fmt"
	"sync"
	"time"
)

// book is what the parent knows of a run: what the workers did, what was done to them, and what was wrong about it.
type book struct {
	cfg   config
	arena *arena

	mu         sync.Mutex       // guards what follows
	lives      []int            // the number of the life in each place
	stops      map[whose][]span // when a worker was frozen, or got no processor; in order and apart
	felt       []uint64         // how many of the stalls in each place are in there
	stall      time.Duration    // the longest, freezes included
	keys       []*history
	faults     []*fault
	outcomes   [outcomes]int64
	lost       int64   // leases that were lost in their section
	excess     []int64 // of waits beyond their bound, ns; less than 0: within it
	gaps       map[string]*gapTally
	violations map[string]int
	texts      []string // of the first violations
	began      time.Time
	took       time.Duration // these two when it is over
	turns      int64
}

type (
	whose struct{ proc, life int }
	span  struct{ from, to int64 }
)

const mostTexts = 20

func newBook(cfg config, a *arena) *book {
	b := &book{
		cfg: cfg, arena: a, lives: make([]int, cfg.procs), felt: make([]uint64, cfg.procs), stops: map[whose][]span{}, gaps: map[string]*gapTally{},
		violations: map[string]int{}, began: time.Now(),
	}
	for k := range cfg.keys {
		b.keys = append(b.keys, newHistory(b, k))
	}
	return b
}

func (b *book) violation(kind, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.violate(kind, format, args...)
}

// violate notes a violation; b.mu is held.
func (b *book) violate(kind, format string, args ...any) {
	b.violations[kind]++
	if len(b.texts) < mostTexts {
		b.texts = append(b.texts, kind+": "+fmt.Sprintf(format, args...))
	}
}

// violated returns how many violations there were.
func (b *book) violated() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, count := range b.violations {
		n += count
	}
	return n
}

// begins notes that a worker starts.
func (b *book) begins(l *life) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lives[l.proc] = l.number
}

// ends reads all that a worker has left, which ran until the given time at least.
func (b *book) ends(l *life, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feel(l.proc)
	for caller := range b.cfg.callers {
		b.drain(l.proc, caller)
		e := b.ring(l.proc, caller).current()
		phase := e.phase.Swap(idle)
		if phase == idle {
			continue
		}
		v := e.load()
		if phase == waiting || v.began == 0 {
			v.outcome, v.began = cutShort, max(at, v.asked)
		}
		if v.outcome == ran { // it ran as long as its process, unless that was frozen beyond the lease
			v.killed, v.ended = true, max(v.ended, at)
		}
		b.add(v, l.proc, caller)
	}
}

// stopped notes that a worker was frozen.
func (b *book) stopped(l *life, from, to int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := whose{l.proc, l.number}
	b.stops[w] = merge(b.stops[w], span{from, to})
}

// read collects in the background, so that workers always have room to go on. The function that it returns ends that.
func (b *book) read() (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			b.collect()
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-ended }
}

// collect reads what all workers have done since the last time.
func (b *book) collect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for proc := range b.cfg.procs {
		b.feel(proc)
		for caller := range b.cfg.callers {
			b.drain(proc, caller)
		}
	}
}

func (b *book) ring(proc, caller int) *ring { return &b.arena.rings[proc*maxCallers+caller] }

func (b *book) drain(proc, caller int) {
	r := b.ring(proc, caller)
	head := r.head.Load()
	for tail := r.tail.Load(); tail < head; tail++ {
		b.add(r.entries[tail%ringSize].load(), proc, caller)
		r.tail.Store(tail + 1)
	}
}

// add files one visit.
func (b *book) add(v visit, proc, caller int) {
	v.proc, v.life, v.caller = proc, b.lives[proc], caller
	b.outcomes[v.outcome]++
	h := b.keys[v.key]
	h.visits = append(h.visits, v)
}

// settle checks all that began before the given time.
func (b *book) settle(before int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.keys {
		h.settle(before)
	}
}

// frozen returns for how long a worker did not run between two times.
func (b *book) frozen(w whose, from, to int64) (d int64) {
	for _, s := range b.stops[w] {
		d += max(0, min(s.to, to)-max(s.from, from))
	}
	return d
}
