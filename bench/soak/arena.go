package main

import (
	"sync/atomic"
	"time"
)

// arena is the memory that the parent and all workers share. What a worker does leaves its mark here at once, so that a
// worker that is killed has left it too.
type arena struct {
	turns atomic.Int64 // sections that ended

	counts [maxKeys]count
	pulses [maxProcs]pulse
	rings  [maxProcs * maxCallers]ring
}

// count is what the sections of a key change without any protection but the lock.
type count struct {
	value atomic.Int64 // from 1
	_     [56]byte
}

// pulse is when a worker got no processor, or was frozen, as it has noticed by itself: the last so many times.
type pulse struct {
	stalls atomic.Uint64
	spans  [stallsKept]struct{ from, to atomic.Int64 }
}

const (
	stallsKept = 64
	maxProcs   = 32
	maxCallers = 32
	maxKeys    = 16
	ringSize   = 32
)

// ring is what one caller has done and the parent has not read yet. The entry at head is open: it tells what the caller does
// now. The caller writes entries and head, the parent tail.
type ring struct {
	head, tail atomic.Uint64
	entries    [ringSize]entry
}

// entry is a call: its wait, and its section if it came to one. Times are Unix ns by the clock of the machine.
type entry struct {
	phase   atomic.Int64
	outcome atomic.Int64
	key     atomic.Int64
	asked   atomic.Int64 // when the wait began
	bound   atomic.Int64 // how long it may last, ns
	began   atomic.Int64 // when it ended, with or without the key; 0: not yet
	until   atomic.Int64 // how long the lease may be trusted, as far as the section knew
	ended   atomic.Int64 // when the section was last seen to hold the lease
	token   atomic.Int64 // fencing token; 0: none
	broken  atomic.Int64 // what the section itself has found wrong
	read    atomic.Int64 // the counter at the begin of the section; 0: not read
	wrote   atomic.Int64 // at its end; 0: not written
	wroteAt atomic.Int64 // when it certainly had been written
}

// Phases of an open entry.
const (
	idle int64 = iota
	waiting
	inside // its function runs
)

// open returns the entry of a new call, or nil if the worker is over before the parent has made room.
func (r *ring) open(over <-chan struct{}, key int, bound time.Duration) *entry {
	for r.head.Load()-r.tail.Load() >= ringSize-1 {
		select {
		case <-over:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
	e := r.current()
	e.clear()
	e.key.Store(int64(key))
	e.bound.Store(int64(bound))
	e.asked.Store(now())
	e.phase.Store(waiting)
	return e
}

// publish ends the open entry.
func (r *ring) publish() {
	r.current().phase.Store(idle)
	r.head.Add(1)
}

func (r *ring) current() *entry { return &r.entries[r.head.Load()%ringSize] }

func (e *entry) clear() {
	for _, f := range []*atomic.Int64{
		&e.phase, &e.outcome, &e.key, &e.asked, &e.bound, &e.began, &e.until, &e.ended, &e.token, &e.broken, &e.read, &e.wrote, &e.wroteAt,
	} {
		f.Store(0)
	}
}

// load returns what e says, for the parent.
func (e *entry) load() visit {
	return visit{
		outcome: outcome(e.outcome.Load()), key: int(e.key.Load()), asked: e.asked.Load(), bound: e.bound.Load(),
		began: e.began.Load(), until: e.until.Load(), ended: e.ended.Load(), token: e.token.Load(), broken: e.broken.Load(),
		read: e.read.Load(), wrote: e.wrote.Load(), wroteAt: e.wroteAt.Load(),
	}
}

func now() int64 { return time.Now().UnixNano() }
