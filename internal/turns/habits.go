package turns

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// habits remember for which keys it pays to linger, so that keys that processes
// share at random cost nothing. Keys whose hashes are equal share a cell, which
// costs some of them time. habits allocate nothing before the first key that
// may linger. Its methods are safe for concurrent use. An update that two of
// them make at once may be lost.
type habits struct {
	seed  maphash.Seed
	start time.Time
	cells atomic.Pointer[[1 << 14]atomic.Uint64]

	// credit is for all keys together. Hand-overs that did not pay take from
	// it, and each turn that took an idle key gives some back. Below 0, one of
	// so many tries may linger as there is debt.
	credit atomic.Int64
}

const (
	habitRow    = 3           // takes in a row of a free key before it lingers
	habitPays   = 4           // turns on an idle key that make good for one hand-over
	habitPause  = time.Second // after a hand-over; doubled each time that it did not pay
	habitLevel  = 6           // doublings at most
	habitCredit = 64
	habitDebt   = 512 // credit is never below -habitDebt
)

// A habit is what a cell has of its keys.
type habit struct {
	row   uint8  // takes in a row of a free key by a first try
	level uint8  // hand-overs in a row that did not pay
	until uint64 // no key lingers before, in ms since start
}

func unpackHabit(v uint64) habit { return habit{uint8(v), uint8(v >> 8), v >> 16} }

func (h habit) pack() uint64 { return uint64(h.row) | uint64(h.level)<<8 | h.until<<16 }

// begin makes h ready for use.
func (h *habits) begin(seed maphash.Seed) {
	h.seed, h.start = seed, time.Now()
	h.credit.Store(habitCredit)
}

// change gives f the habit of a key, and the key the one that f returns.
func (h *habits) change(name string, f func(b habit) habit) {
	cells := h.cells.Load()
	if cells == nil {
		return
	}
	cell := &cells[maphash.String(h.seed, name)%uint64(len(cells))]
	v := cell.Load()
	if next := f(unpackHabit(v)).pack(); next != v {
		cell.Store(next)
	}
}

// ms returns the time from the start until t.
func (h *habits) ms(t time.Time) uint64 { return uint64(max(0, t.Sub(h.start).Milliseconds())) }

// may reports whether to linger with a key that is about to be tried.
func (h *habits) may(name string, now time.Time) (may bool) {
	if h.cells.Load() == nil {
		h.cells.CompareAndSwap(nil, new([1 << 14]atomic.Uint64))
	}
	if c := h.credit.Load(); c < 0 && limits.Jitter(time.Duration(-c)) != 0 {
		return false
	}
	h.change(name, func(b habit) habit {
		may = b.row >= habitRow && h.ms(now) >= b.until
		return b
	})
	return may
}

// took notes that a first try took the key.
func (h *habits) took(name string) {
	h.change(name, func(b habit) habit {
		b.row = min(b.row+1, habitRow)
		return b
	})
}

// busy notes that another process has or wants the key.
func (h *habits) busy(name string) {
	h.change(name, func(b habit) habit {
		b.row = 0
		return b
	})
}

// paid notes that a turn took an idle key.
func (h *habits) paid() {
	if h.credit.Load() < habitCredit {
		h.credit.Add(1)
	}
}

// ended notes that a key cannot be idle any longer, because another process
// wants it or a turn takes long. taken is how often a turn took it when it was.
func (h *habits) ended(name string, taken int) {
	bad := taken < habitPays
	if bad && h.credit.Load() > -habitDebt {
		h.credit.Add(-2 * habitPays)
	}
	now := time.Now()
	h.change(name, func(b habit) habit {
		if b.row = 0; bad {
			b.level = min(b.level+1, habitLevel)
		} else {
			b.level = 0
		}
		b.until = h.ms(now.Add(habitPause << b.level / 2))
		return b
	})
}
