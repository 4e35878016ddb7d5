package judge

import (
	"cmp"
	"slices"
	"time"
)

// mostStarved is the max wait of a caller while others come and go.
const mostStarved = 2 * time.Second

// starvation is C10. In calm times no caller waits for longer than mostStarved
// while others have turns on its key. The time of long sections is subtracted,
// and so is time in which the caller's process did not run. Waits with a lower
// limit are not examined. Nor are runs with carts, because a cart has its first
// keys while it waits for a long section on another.
func (v *Verdict) starvation(h *History, r *Run) {
	if slices.Contains(r.Roles, Cart) {
		return
	}
	busy := make([][]Span, len(h.keys)) // the long sections of each key
	for key, turns := range h.keys {
		busy[key] = longSections(turns)
	}
	for _, l := range h.lives {
		for _, x := range l.visits {
			if x.closing || x.bound < int64(mostStarved) || !r.isCalm(h, x.asked) || !r.isCalm(h, x.got) {
				continue
			}
			wait := time.Duration(x.got - x.asked)
			wait -= within(x.frozen, x.asked, x.got) + within(busy[x.key], x.asked, x.got)
			v.starved = max(v.starved, wait)
			if turns := turnsOfOthers(h.keys[x.key], x); wait > mostStarved && turns > 1 {
				v.violate(starved, "a wait of %v while others had %d turns: %v", wait, turns, x)
			}
		}
	}
}

// longSections returns the times of sections that take long. Those of readers
// overlap others, also ones that began later.
func longSections(turns []*visit) (spans []Span) {
	const long = 20 * time.Millisecond
	for _, x := range turns {
		if s := (Span{x.got, x.over()}); s.length() > long {
			spans = append(spans, s)
		}
	}
	return apart(spans)
}

// turnsOfOthers counts the turns on the key of x that began while x waited.
func turnsOfOthers(turns []*visit, x *visit) (n int) {
	first, _ := slices.BinarySearchFunc(turns, x.asked, func(o *visit, at int64) int { return cmp.Compare(o.got, at) })
	for _, o := range turns[first:] {
		if o.got >= x.got {
			break
		}
		if o != x {
			n++
		}
	}
	return n
}
