package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// minGap is the shortest gap that is examined.
const minGap = 50 * time.Millisecond

// Offer is the time for which a worker has a key that was handed over. So it is
// also the cost for the others if a waiting worker died.
func Offer(ttl time.Duration) time.Duration {
	c := locker.Claim{TTL: ttl}
	return c.LongOffer()
}

// reach is the time after a fault in which a gap may be caused by it. A dead
// waiter stays in the queue, and is offered the key later.
const reach = locker.QueueLife + 1500*time.Millisecond

// gapTally sums up the gaps after one kind of fault.
type gapTally struct {
	count   int
	longest time.Duration
}

// The names for gaps that are blamed on no fault, and on more than one.
const (
	noFault    = "no fault"
	manyFaults = "several faults"
)

// gaps is C11. While a caller waits, a key is free for a bounded time. The
// bound is the TTL of a holder that was killed, or the offer of a waiter that
// was killed, or an offer if there was no fault. A gap is as long as some
// caller waited without a break, in a process that ran. After other faults
// there is no promise, and gaps are only measured.
func (v *Verdict) gaps(h *History, r *Run) {
	for key, visits := range h.keys {
		waits := h.waits(key)
		carts := filled(waits)
		waits = slices.DeleteFunc(waits, func(x *visit) bool { return x.cart })
		var last *visit // whose section ended last
		for _, x := range visits {
			if last != nil && x.got-last.over() >= int64(minGap) {
				to := x.got
				if r.To != 0 {
					to = min(to, r.To)
				}
				if gap := waited(waits, carts, Span{last.over(), to}); gap.length() >= minGap {
					v.gap(h, r, gap, last, x)
				}
			}
			if last == nil || x.over() > last.over() {
				last = x
			}
		}
	}
}

func (v *Verdict) gap(h *History, r *Run, gap Span, last, next *visit) {
	kind, bound := h.blame(next.key, gap, r.GapSlack)
	t := v.free[kind]
	t.count++
	t.longest = max(t.longest, gap.length())
	v.free[kind] = t
	if r.Seen && bound > 0 && gap.length() > bound+r.Late+r.GapSlack {
		v.violate(gapBound, "key %d was free for %v while somebody waited, %s allows %v: after\n    %v\n    until %v%v",
			next.key, gap.length(), kind, bound, last, next, h.around(gap.From-int64(reach), gap.To))
	}
}

// waits returns the visits that asked for key and whose end is known, in order.
// Visits of a worker that was closing do not count, because no key is promised
// to it.
func (h *History) waits(key int) (waits []*visit) {
	for _, l := range h.lives {
		for _, x := range l.visits {
			if x.key == key && !x.closing {
				waits = append(waits, x)
			}
		}
	}
	slices.SortFunc(waits, func(a, b *visit) int { return cmp.Compare(a.asked, b.asked) })
	return waits
}

// waited returns the longest part of a gap in which a caller waited without a
// break, in a process that ran. The times of carts do not count.
func waited(waits []*visit, carts []Span, gap Span) (longest Span) {
	var parts []Span
	for _, x := range waits {
		if x.asked >= gap.To {
			break
		}
		if x.got > gap.From {
			for _, p := range awake(x.frozen, Span{max(x.asked, gap.From), min(x.got, gap.To)}) {
				parts = append(parts, awake(carts, p)...)
			}
		}
	}
	for _, p := range apart(parts) {
		if p.length() > longest.length() {
			longest = p
		}
	}
	return longest
}

// awake returns the parts of s that are in none of frozen, which are in order.
func awake(frozen []Span, s Span) (parts []Span) {
	for _, f := range frozen {
		if f.To <= s.From || f.From >= s.To {
			continue
		}
		if f.From > s.From {
			parts = append(parts, Span{s.From, f.From})
		}
		s.From = max(s.From, f.To)
	}
	if s.From < s.To {
		parts = append(parts, s)
	}
	return parts
}

// blame returns the fault before a gap, and the max duration of the gap after
// it. The duration 0 means no promise. A fault that came when the gap should
// have been over is not blamed. Each holder that was killed may cost its TTL.
// Of the waiters only one counts, because a release hands the key to one of
// them. When that offer ends the key is free for all.
func (h *History) blame(key int, gap Span, slack time.Duration) (kind string, bound time.Duration) {
	kind = noFault
	due, offered := gap.From, Offer(h.most)
	for _, f := range h.faults {
		was, seen := f.Roles[key]
		switch {
		case f.To <= gap.From-int64(reach), f.From >= gap.To, seen && was == Bystander:
			continue
		case f.From > due+int64(offered+slack):
			continue
		case kind == noFault:
			kind, offered = f.name(key), 0
		default:
			kind = manyFaults
		}
		switch was {
		case Holder:
			due = max(due, f.From) + int64(f.TTL)
		case Waiter:
			offered = max(offered, Offer(f.TTL))
		default:
			return kind, 0
		}
	}
	return kind, time.Duration(due-gap.From) + offered
}

// name returns the name of f in the table, for a gap on key.
func (f *Fault) name(key int) string {
	if was, ok := f.Roles[key]; ok {
		return f.Kind + " of a " + string(was)
	}
	return f.Kind
}
