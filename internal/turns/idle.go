package turns

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// An idler is what a grant that may be idle has beside the others. The grant
// keeps its gate alive. Nobody has a turn on an idle grant, and the process
// keeps the key for its next call. Its gate has the grant and an empty floor
// then:
//
//	   last turn ends                  a call joins
//	on ──────────────► idle ──────────────────────────────────► on
//	                    │ another process wants the key, Linger or the tenure
//	                    │ is over, messages may be missed, a call on other terms
//	                    ▼ joins, somebody releases the key by force, Close
//	                  released, by an idle releaser
//
// An idle releaser is a turn without a caller. It has the floor while it
// releases the key, so a call that comes meanwhile stands in line behind it.
//
// The grant's mutex guards all but set.
type idler struct {
	set *Settings // of the turn that acquired the grant
	// brief says that the grant may become idle: its lease is a short one, and
	// no renewal has begun. A process that dies with an idle key costs the
	// others that lease, and an idle grant is renewed only to find out whether
	// it is still held.
	brief bool
	node  string    // of the key, see [outages]
	taken int       // how often a call took the idle grant
	since time.Time // when the last turn ended
	armed time.Time // when the grant's timer fires at the latest; zero: it has fired
}

// mayIdle reports whether the grant may be idle. l may be nil.
func (l *idler) mayIdle() bool { return l != nil && l.brief }

// lingerStats remember for which keys it pays to linger, so that keys that
// processes share at random cost nothing. Keys whose hashes are equal share a
// cell, which costs some of them time. lingerStats allocate nothing before the
// first key that may linger. Its methods are safe for concurrent use. An update
// that two of them make at once may be lost.
type lingerStats struct {
	seed  maphash.Seed
	start time.Time
	cells atomic.Pointer[[1 << 14]atomic.Uint64]

	// credit is for all keys together. Hand-overs that did not pay take from
	// it, and each turn that took an idle key gives some back. Below 0, one of
	// so many tries may linger as there is debt.
	credit atomic.Int64
}

const (
	lingerRow  = 3 // takes in a row of a free key before it lingers
	lingerPays = 4 // turns on an idle key that make good for one hand-over

	// lingerPause is the pause after a hand-over that did not pay. The next
	// one in a row that did not pay doubles it. Half of it is the pause after
	// a hand-over that paid.
	lingerPause = time.Second
	lingerLevel = 6 // hand-overs in a row that count for that

	lingerCredit = 64
	lingerDebt   = 512 // credit is never below -lingerDebt
)

// A lingerStat is what a cell has of its keys.
type lingerStat struct {
	row   uint8  // takes in a row of a free key by a first try
	level uint8  // hand-overs in a row that did not pay
	until uint64 // no key lingers before, in ms since start
}

func unpackLingerStat(v uint64) lingerStat { return lingerStat{uint8(v), uint8(v >> 8), v >> 16} }

func (h lingerStat) pack() uint64 { return uint64(h.row) | uint64(h.level)<<8 | h.until<<16 }

// begin makes h ready for use.
func (h *lingerStats) begin(seed maphash.Seed) {
	h.seed, h.start = seed, time.Now()
	h.credit.Store(lingerCredit)
}

// change gives f the lingerStat of a key, and the key the one that f returns.
func (h *lingerStats) change(name string, f func(b lingerStat) lingerStat) {
	cells := h.cells.Load()
	if cells == nil {
		return
	}
	cell := &cells[maphash.String(h.seed, name)%uint64(len(cells))]
	v := cell.Load()
	if next := f(unpackLingerStat(v)).pack(); next != v {
		cell.Store(next)
	}
}

// ms returns the time from the start until t.
func (h *lingerStats) ms(t time.Time) uint64 { return uint64(max(0, t.Sub(h.start).Milliseconds())) }

// may reports whether to linger with a key that is about to be tried.
func (h *lingerStats) may(name string, now time.Time) (may bool) {
	if h.cells.Load() == nil {
		h.cells.CompareAndSwap(nil, new([1 << 14]atomic.Uint64))
	}
	if c := h.credit.Load(); c < 0 && limits.Jitter(time.Duration(-c)) != 0 {
		return false
	}
	h.change(name, func(b lingerStat) lingerStat {
		may = b.row >= lingerRow && h.ms(now) >= b.until
		return b
	})
	return may
}

// took notes that a first try took the key.
func (h *lingerStats) took(name string) {
	h.change(name, func(b lingerStat) lingerStat {
		b.row = min(b.row+1, lingerRow)
		return b
	})
}

// busy notes that another process has or wants the key.
func (h *lingerStats) busy(name string) {
	h.change(name, func(b lingerStat) lingerStat {
		b.row = 0
		return b
	})
}

// paid notes that a turn took an idle key.
func (h *lingerStats) paid() {
	if h.credit.Load() < lingerCredit {
		h.credit.Add(1)
	}
}

// ended notes that a key cannot be idle any longer, because another process
// wants it or a turn takes long. taken is how often a turn took it when it was.
func (h *lingerStats) ended(name string, taken int) {
	bad := taken < lingerPays
	if bad && h.credit.Load() > -lingerDebt {
		h.credit.Add(-2 * lingerPays)
	}
	now := time.Now()
	h.change(name, func(b lingerStat) lingerStat {
		if b.row = 0; bad {
			b.level = min(b.level+1, lingerLevel)
		} else {
			b.level = 0
		}
		b.until = h.ms(now.Add(lingerPause << b.level / 2))
		return b
	})
}

// idleReleasers release the keys of those that are due, in a row for each node,
// so that a node that hangs delays no other. If more are due than requests may
// be under way, each request is for several. A store that is asked to release
// 100,000 keys one by one leaves most of them without an answer.
type idleReleasers struct {
	working background // the workers

	mu   sync.Mutex              // guards rows and what is in them; only the mutex of working is locked inside
	rows map[string]*releaserRow // by node; each has a worker
}

type releaserRow struct {
	due     []*Turn
	workers int
}

// releaserWorkers is how many requests of a row are under way at a time. Many
// more would keep the requests of calls from being sent.
const releaserWorkers = 8

// add lets w release its key, which is on node, in the background.
func (ws *idleReleasers) add(node string, w *Turn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	row := ws.rows[node]
	if row == nil {
		if ws.rows == nil {
			ws.rows = make(map[string]*releaserRow)
		}
		row = &releaserRow{}
		ws.rows[node] = row
	}
	row.due = append(row.due, w)
	if row.workers < releaserWorkers {
		row.workers++
		ws.working.begin()
		go ws.work(node, row) // ends when nothing is due
	}
}

func (ws *idleReleasers) work(node string, row *releaserRow) {
	defer ws.working.end()
	ctx := context.Background() //nolint:forbidigo // they have no caller
	for some := ws.take(node, row); len(some) > 0; some = ws.take(node, row) {
		for i, err := range ReleaseKeys(ctx, some) {
			some[i].NoteRelease(ctx, err)
			some[i].retire()
		}
	}
}

// take takes idle releasers that are due in a row and have the same TTL. If
// there are none, the caller is a worker no more.
func (ws *idleReleasers) take(node string, row *releaserRow) (some []*Turn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := 0
	for n < min(len(row.due), locker.MaxSeveral) && row.due[n].set.TTL == row.due[0].set.TTL {
		n++
	}
	some, row.due = row.due[:n:n], row.due[n:]
	if n > 0 {
		return some
	}
	if row.workers--; row.workers == 0 {
		delete(ws.rows, node)
	}
	row.due = nil
	return nil
}

// wait waits until nothing is due. If ctx ends first, the rest is left to the
// locker, and wait blocks until the requests under way have ended.
func (ws *idleReleasers) wait(ctx context.Context) {
	if ws.working.wait(ctx) {
		return
	}
	var rest []*Turn
	ws.mu.Lock()
	for _, row := range ws.rows {
		rest, row.due = append(rest, row.due...), nil
	}
	ws.mu.Unlock()
	for _, w := range rest {
		w.Discard()
		w.retire()
	}
	ws.working.wait(context.WithoutCancel(ctx))
}
