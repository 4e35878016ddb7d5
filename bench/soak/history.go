package main

import (
	"cmp"
	"slices"
	"time"
)

// history is what happened on one key, checked in the order of the begins.
type history struct {
	book    *book
	key     int
	visits  []visit
	checked int // so many of them have been; they stay for a while, for their waits

	last   visit // the section whose end is the latest so far
	newest visit // the section with the highest token
	writer visit // the section that wrote last
	any    bool  // there was a section

	possible map[int64]bool // what the counter may be
	stale    map[int64]bool // what was written by a process that slept between its last look at the lease and the write
}

func newHistory(b *book, key int) *history {
	return &history{book: b, key: key, possible: map[int64]bool{1: true}, stale: map[int64]bool{}}
}

// settle checks the visits that began before the given time.
func (h *history) settle(before int64) {
	slices.SortStableFunc(h.visits[h.checked:], func(a, b visit) int { return cmp.Compare(a.began, b.began) })
	if h.checked > 0 && h.checked < len(h.visits) && h.visits[h.checked].began < h.visits[h.checked-1].began {
		h.book.violate("broken run", "came too late to be checked: %v", h.visits[h.checked])
	}
	for h.checked < len(h.visits) && h.visits[h.checked].began < before {
		h.check(h.visits[h.checked])
		h.checked++
	}
	old := before - int64(10*time.Second)
	if n := h.checked / 2; n > 1000 && h.visits[n].began < old {
		h.visits = slices.Delete(h.visits, 0, n)
		h.checked -= n
	}
}

func (h *history) check(v visit) {
	h.wait(v)
	if v.outcome != ran {
		return
	}
	if v.broken&otherToken != 0 {
		h.book.violate("token", "a call inside it got another token: %v", v)
	}
	if v.wrote == 0 && !v.killed {
		h.book.lost++
	}
	if !h.book.cfg.flush {
		if v.broken&lostEarly != 0 {
			h.book.violate("lost early", "the lease ended before its deadline: %v", v)
		}
		h.overlap(v)
		h.count(v)
		h.gap(v)
	}
	h.order(v)
	if !h.any || v.end() > h.last.end() {
		h.last = v
	}
	h.any = true
}

// wait holds v's wait against its bound.
func (h *history) wait(v visit) {
	if v.outcome == cutShort {
		return
	}
	b := h.book
	excess := v.began - v.asked - v.bound - b.frozen(whose{v.proc, v.life}, v.asked, v.began)
	b.excess = append(b.excess, excess)
	if excess > int64(b.cfg.slack) {
		b.violate("wait", "%v beyond its bound of %v: %v%s", time.Duration(excess), time.Duration(v.bound), v, b.around(v.asked, v.began))
	}
}

// overlap looks whether v began while another section could trust its lease.
func (h *history) overlap(v visit) {
	if h.any && v.began < h.last.end() {
		h.book.violate("overlap", "%v\n    began in %v%s", v, h.last, h.book.around(h.last.began, v.began))
	}
}

// order looks whether tokens rise with the begins; if the store may forget who holds a key, no two may be the same at least.
func (h *history) order(v visit) {
	if v.token == 0 {
		return
	}
	if h.newest.token != 0 && v.token <= h.newest.token && (!h.book.cfg.flush || v.token == h.newest.token) {
		h.book.violate("token", "%v\n    came after %v%s", v, h.newest, h.book.around(h.newest.began, v.began))
	}
	if v.token > h.newest.token {
		h.newest = v
	}
}

// count looks whether what v has read is what the section before has written. A section that was killed may or may not have
// written; one that slept between its last look at the lease and the write may write whenever it wakes up.
func (h *history) count(v visit) {
	inTime := v.wrote != 0 && v.wroteAt <= v.until
	switch {
	case v.killed && !inTime:
		if v.read != 0 {
			h.possible[v.read+1] = true
		}
		return
	case v.wrote == 0:
		return
	case !inTime:
		h.stale[v.wrote] = true
		return
	}
	switch {
	case h.possible[v.read]:
	case h.stale[v.read]:
		delete(h.stale, v.read)
	default:
		h.book.violate("lost update", "%v\n    does not follow %v%s", v, h.writer, h.book.around(h.writer.began, v.began))
	}
	clear(h.possible)
	h.possible[v.wrote] = true
	h.writer = v
}
