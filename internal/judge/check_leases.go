package judge

import (
	"time"
)

// exclusion is C3. While a lease is promised no other holder gets its key or
// takes it.
func (v *Verdict) exclusion(h *History) {
	for _, visits := range h.keys {
		v.crowds(h, visits)
		for _, x := range visits {
			if h.forgets(x, x.got, x.promised()+1) {
				continue
			}
			if v.lib.Own && x.early(h) {
				v.violate(exclusion, "it was lost before its time: %v%v", x, h.around(x.got, x.over()))
			}
		}
	}
}

// early reports whether the key was lost while it was promised. The holder of a
// cart is told with the first of its keys that is lost. A loss that only the
// release has found may be younger than the section's end.
func (v *visit) early(h *History) bool {
	end, seen := v.until-int64(v.ttl/100), v.over()
	lost := v.lost != 0 && v.lost < end && !v.cart
	if v.taken && v.lost == 0 {
		lost, seen = v.freed < end, max(seen, v.freed)
	}
	return lost && !v.closing && !h.forgets(v, v.got, seen)
}

// afterDeadline is the time between guard's deadline and the end of the key. It
// is the margin and the drift of the shortest lease that it may have been.
func afterDeadline(ttl time.Duration) time.Duration {
	offer := min(ttl, time.Second)
	return max(offer/20, 5*time.Millisecond) + max(offer/100, 2*time.Millisecond)
}

// times checks C5 and C6.
func (v *Verdict) times(h *History, r *Run) {
	for _, l := range h.lives {
		for _, x := range l.visits {
			v.wait(h, x, r)
			if x.has && x.exit != 0 && x.until != 0 {
				v.toldInTime(x)
			}
			if p := x.probe; p != nil && p.TTL == endless {
				v.violate(residue, "the key has no TTL: %v", x)
			} else if p != nil && p.Until != 0 && !h.forgets(x, x.got, p.At) &&
				p.Until > p.At+max(p.TTL, 0)*int64(time.Millisecond) {
				v.violate(toldInTime, "the key ends first, at %.6f the server says in %d ms: %v%v", float64(p.At)/1e9,
					p.TTL, x, h.around(x.got, p.At))
			}
		}
	}
}

// endless is the answer of PTTL for a key that never ends.
const endless = -1

// promisedSlack is the time that a wait may take beyond its bound, as guard
// promises.
const promisedSlack = 50 * time.Millisecond

// wait is C6. A wait ends when it should, if its process runs.
func (v *Verdict) wait(h *History, x *visit, r *Run) {
	excess := time.Duration(x.got-x.asked-x.bound) - within(x.frozen, x.asked, x.got)
	v.excess = max(v.excess, excess)
	if excess > promisedSlack {
		v.beyond++
	}
	if excess > r.Slack {
		v.violate(boundedWait, "%v beyond its bound of %v: %v%v", excess, time.Duration(x.bound), x,
			h.around(x.asked, x.got))
	}
}

// toldInTime is C5. A holder that uses a key beyond its deadline was told
// before the key could end, if its process ran.
func (v *Verdict) toldInTime(x *visit) {
	end := x.exit
	if x.lost != 0 {
		end = x.lost
	}
	if x.lost != 0 && end <= x.until-int64(x.ttl/100) {
		return // by a renewal
	}
	limit := x.ttl / 100 // the max drift that is allowed for
	if v.lib.Tells {
		limit = afterDeadline(x.ttl)
	}
	late := time.Duration(end-x.until) - within(x.frozen, x.until-int64(20*time.Millisecond), end)
	if x.lost != 0 {
		if left := limit - late; v.closeness < 0 || left < v.closeness {
			v.closeness = left
		}
	}
	if late > limit {
		v.violate(toldInTime, "%v too late: %v", late-limit, x)
	}
}

// TryLimit is the max time of one try, and of a wait if that is shorter.
func TryLimit(ttl time.Duration) time.Duration { return min(ttl/4, 500*time.Millisecond) }

// ReleaseLimit is the max time of a release.
func ReleaseLimit(ttl time.Duration) time.Duration { return min(ttl/2, time.Second) }
