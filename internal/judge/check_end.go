package judge

import (
	"math"
	"slices"
	"time"
)

// In calm times a key may be free for quickly while a caller in another process
// waits. At most mostSlow percent of these hand-overs may take longer, because
// a lost wake-up costs a poll.
const (
	quickly   = 100 * time.Millisecond
	mostSlow  = 10 // percent
	leastSeen = 30
)

// stuck is the time in which even a busy machine grants a key that is wanted
// all the time.
const stuck = 10 * time.Second

// liveness is C7. When all faults are over each key is granted again within the
// TTL and a second. From then on it is handed over quickly. A busy machine may
// be the cause of delays, but not of a key that is never granted again, which
// fails the run. The stalls that a worker has felt since the last fault do not
// count.
func (v *Verdict) liveness(h *History, r *Run) {
	limit := r.Most + r.Late + time.Second
	var stalls time.Duration
	for _, l := range h.lives {
		stalls = max(stalls, within(l.frozen, r.Calm, r.To))
	}
	limit += stalls
	for key, visits := range h.keys {
		healed := slices.ContainsFunc(visits, func(x *visit) bool {
			return x.got > r.Calm && x.got < r.Calm+int64(limit)
		})
		again := slices.ContainsFunc(visits, func(x *visit) bool { return x.got > r.Calm })
		if !again && r.To-r.Calm > int64(stuck) {
			v.violate(soundRun, "key %d was not granted any more in the %v after the last fault", key,
				time.Duration(r.To-r.Calm))
		}
		if long := r.To-r.Calm > int64(limit); long && !healed {
			v.violate(liveness, "key %d was not granted within %v after the last fault", key, limit)
		}
	}
	overs, slow := v.handOvers(h, r)
	if overs >= leastSeen && slow*100 > overs*mostSlow {
		v.violate(liveness, "%d of %d hand-overs in calm times took more than %v", slow, overs, quickly)
	}
}

// handOvers counts the hand-overs between processes in calm times, and those of
// them that were slow.
func (v *Verdict) handOvers(h *History, r *Run) (overs, slow int) {
	for _, visits := range h.keys {
		var last *visit
		for _, x := range visits {
			if last != nil && x.got > last.over() {
				from := max(x.asked, last.over())
				free := time.Duration(x.got-from) - within(x.frozen, from, x.got)
				v.idle = max(v.idle, time.Duration(x.got-last.over()))
				if x.lifetime != last.lifetime && x.asked < last.over() && last.exit != 0 && r.isCalm(h, from) {
					overs++
					if free > quickly {
						slow++
					}
				}
			}
			if last == nil || x.over() > last.over() {
				last = x
			}
		}
	}
	return overs, slow
}

// isCalm reports whether there has been no fault for some time.
func (r *Run) isCalm(h *History, at int64) bool {
	return at < r.To && !slices.ContainsFunc(h.faults, func(f Fault) bool {
		return f.touches(at-int64(2*r.Most), at+1)
	})
}

// residue is C8. A closed locker leaves nothing in its process. It leaves no
// key without a TTL anywhere, and no key of a lease.
func (v *Verdict) residue(h *History, r *Run) {
	for _, l := range h.lives {
		switch {
		case l.killed:
		case l.closed == nil:
			v.violate(soundRun, "worker %d.%d ended without a word", l.proc, l.number)
		case l.closed.Goroutines > 0 || l.closed.Files > 0:
			v.violate(residue, "worker %d.%d kept %d goroutines and %d files, 3s after its locker was closed: %s",
				l.proc, l.number, l.closed.Goroutines, l.closed.Files, l.closed.Err)
		}
	}
	for name, ms := range r.Left {
		if ms < 0 {
			v.violate(residue, "%s has no TTL", name)
		}
		if slices.Contains(r.Leases, name) && !r.mayLeave(h) {
			v.violate(residue, "%s is held by nobody, for %d ms more", name, ms)
		}
	}
}

// mayLeave reports whether leases of killed workers, or leases whose release
// the servers have forgotten, may be there at the end.
func (r *Run) mayLeave(h *History) bool {
	return r.To-r.Calm < int64(r.Most) ||
		slices.ContainsFunc(h.forgetful, func(w forgetful) bool { return w.touches(r.To, math.MaxInt64) })
}
