package main

import "sync/atomic"

// arena is memory in a file that all processes of one measurement share.
// Sections under a lock leave their marks here. So two holders at once are seen
// in all processes, without a request that would change the measurement.
type arena struct {
	overlaps atomic.Int64 // sections that began while another ran on the same key

	// The state of the one key of the take-over workloads. They are its last
	// holder, the time since when it is free, and the processes that are about
	// to wait for it.
	holder     atomic.Int64 // process number + 1
	releasedAt atomic.Int64 // Unix ns
	waiting    [maxProcs]atomic.Int64

	slots [maxSlots]slot
}

// slot belongs to one key. It fills a cache line so that keys do not slow each
// other down.
type slot struct {
	inside atomic.Int64
	count  atomic.Int64 // of sections; loaded and stored, never added to, so an overlap loses one
	_      [48]byte
}

const (
	maxProcs   = 16
	maxSlots   = maxCallers * keysEach
	maxCallers = 512
	keysEach   = 8 // keys of each caller of the spread workloads
)

// enter and leave are called around every section.
func (a *arena) enter(key int) {
	if a.slots[key].inside.Add(1) != 1 {
		a.overlaps.Add(1)
	}
}

func (a *arena) leave(key int) { a.slots[key].inside.Add(-1) }

// counted returns the sum of the counters of all keys.
func (a *arena) counted() (n int64) {
	for i := range a.slots {
		n += a.slots[i].count.Load()
	}
	return n
}
