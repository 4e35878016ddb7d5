package main

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
func (v *verdict) starvation(h *history, r *run) {
	if slices.Contains(r.cfg.roles, cart) {
		return
	}
	for _, l := range h.lives {
		for _, x := range l.visits {
			if x.closing || x.bound < int64(mostStarved) || !r.isCalm(h, x.asked) || !r.isCalm(h, x.got) {
				continue
			}
			turns, busy := turnsOfOthers(h.keys[x.key], x)
			wait := time.Duration(x.got-x.asked) - within(x.frozen, x.asked, x.got) - busy
			v.starved = max(v.starved, wait)
			if wait > mostStarved && turns > 1 {
				v.violate(starved, "a wait of %v while others had %d turns: %v", wait, turns, x)
			}
		}
	}
}

// turnsOfOthers counts the turns on the key of x that began while x waited. It
// also returns the part of the wait that long sections took.
func turnsOfOthers(turns []*visit, x *visit) (n int, busy time.Duration) {
	const long = 20 * time.Millisecond
	first, _ := slices.BinarySearchFunc(turns, x.asked, func(o *visit, at int64) int { return cmp.Compare(o.got, at) })
	for i := max(first-1, 0); i < len(turns) && turns[i].got < x.got; i++ {
		if o := turns[i]; o != x {
			n++
			if d := time.Duration(min(o.over(), x.got) - max(o.got, x.asked)); d > long {
				busy += d
			}
		}
	}
	return n, busy
}
