package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// leastGap is the shortest gap that is looked at.
const leastGap = 50 * time.Millisecond

// gapTally is what is known of the gaps after one kind of fault.
type gapTally struct {
	count   int
	longest time.Duration
	text    string // of the longest
}

// gap measures for how long before v nobody held the key although somebody waited all the time: in a process that ran.
func (h *history) gap(v visit) {
	if !h.any || v.began-h.last.end() < int64(leastGap) {
		return
	}
	from, to := h.waitedFor(h.last.end(), v.began)
	d := time.Duration(to - from)
	if d < leastGap {
		return
	}
	b := h.book
	kind, bound := b.blame(h.key, from, to)
	t := b.gaps[kind]
	if t == nil {
		t = &gapTally{}
		b.gaps[kind] = t
	}
	t.count++
	text := fmt.Sprintf("key %d was free %v from %s: after %v\n    until %v%s", h.key, d, clock(from), h.last, v, b.around(from, to))
	if d > t.longest {
		t.longest, t.text = d, text
	}
	if bound > 0 && d > bound+b.cfg.gapSlack {
		b.violate("gap", "%s, %s", kind, text)
	}
}

// waitedFor returns the longest part of a span in which somebody waited without a break.
func (h *history) waitedFor(from, to int64) (begin, end int64) {
	var waits []span
	for _, v := range h.visits {
		if v.asked < to && v.began > from {
			waits = append(waits, h.book.awake(v, max(v.asked, from), min(v.began, to))...)
		}
	}
	slices.SortFunc(waits, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var one span // without a break
	for _, w := range waits {
		if w.from > one.to {
			one = w
		}
		one.to = max(one.to, w.to)
		if one.to-one.from > end-begin {
			begin, end = one.from, one.to
		}
	}
	return begin, end
}

// awake returns the parts of a span in which v's process was not frozen.
func (b *book) awake(v visit, from, to int64) (parts []span) {
	for _, s := range b.stops[whose{v.proc, v.life}] { // in order of time
		if s.to <= from || s.from >= to {
			continue
		}
		if s.from > from {
			parts = append(parts, span{from, s.from})
		}
		from = max(from, s.to)
	}
	if from < to {
		parts = append(parts, span{from, to})
	}
	return parts
}

// blame says after what fault a gap was, and how long it may be for that; 0: there is no promise. Only a fault that came alone
// is blamed.
func (b *book) blame(key int, from, to int64) (kind string, bound time.Duration) {
	near := b.near(from, to)
	for i, f := range near { // the gap was to be over before those that came later
		if first := near[0]; first.to != 0 && f.from > first.to+int64(b.cfg.reach()) {
			near = near[:i]
			break
		}
	}
	switch {
	case len(near) == 0:
		return "none", b.cfg.offer()
	case len(near) > 1:
		return "several", 0
	}
	f := near[0]
	if f.kind != "kill" {
		return f.kind, 0
	}
	role := f.roles[key]
	if role == "holder" {
		return "kill of a holder", b.cfg.ttl
	}
	return "kill of a " + role, b.cfg.offer()
}

// near returns the faults whose doing it may be what happened in a span.
func (b *book) near(from, to int64) (near []*fault) {
	for _, f := range b.faults {
		if f.from < to && (f.to == 0 || f.to+int64(b.cfg.reach()) > from) {
			near = append(near, f)
		}
	}
	return near
}

// around is the faults near a span, for a text. Few of them are ever read.
func (b *book) around(from, to int64) fmt.Stringer { return surroundings{b, span{from, to}} }

type surroundings struct {
	book *book
	span span
}

func (s surroundings) String() string {
	var text strings.Builder
	for _, f := range s.book.near(s.span.from, s.span.to) {
		text.WriteString("\n    fault: " + f.String())
	}
	return text.String()
}
