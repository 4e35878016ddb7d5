package main

import (
	"time"

	"github.com/go-lockguard/guard/lab/torture/libs"
)

// exclusion is C3. While a lease is promised no other holder gets its key or
// takes it.
func (v *verdict) exclusion(h *history) {
	for _, visits := range h.keys {
		v.crowds(h, visits)
		for _, x := range visits {
			if h.forgets(x, x.got, x.promised()+1) {
				continue
			}
			if v.lib == libs.Guard && x.early(h) {
				v.violate(exclusion, "it was lost before its time: %v%v", x, h.around(x.got, x.over()))
			}
		}
	}
}

// early reports whether the key was lost while it was promised. The holder of a
// cart is told with the first of its keys that is lost. A loss that only the
// release has found may be younger than the section's end.
func (v *visit) early(h *history) bool {
	end, seen := v.until-int64(ttl(v.proc)/100), v.over()
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
func (v *verdict) times(h *history, cfg config) {
	for _, l := range h.lives {
		for _, x := range l.visits {
			v.wait(h, x, cfg)
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
func (v *verdict) wait(h *history, x *visit, cfg config) {
	excess := time.Duration(x.got-x.asked-x.bound) - within(x.frozen, x.asked, x.got)
	v.excess = max(v.excess, excess)
	if excess > promisedSlack {
		v.beyond++
	}
	if excess > cfg.slack {
		v.violate(boundedWait, "%v beyond its bound of %v: %v%v", excess, time.Duration(x.bound), x,
			h.around(x.asked, x.got))
	}
}

// toldInTime is C5. A holder that uses a key beyond its deadline was told
// before the key could end, if its process ran.
func (v *verdict) toldInTime(x *visit) {
	end := x.exit
	if x.lost != 0 {
		end = x.lost
	}
	if x.lost != 0 && end <= x.until-int64(ttl(x.proc)/100) {
		return // by a renewal
	}
	limit := ttl(x.proc) / 100 // the max drift that is allowed for
	if v.lib.Tells {
		limit = afterDeadline(ttl(x.proc))
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
