package main

import (
	"slices"
	"time"
)

// What a key may be free while somebody in another process waits, in calm
// times, and how many of these hand-overs may take longer: a wake-up that is
// lost costs a poll.
const (
	quickly   = 100 * time.Millisecond
	mostSlow  = 10 // percent
	leastSeen = 30
)

// stuck is how long no machine is too busy to grant a key that is wanted all
// the time.
const stuck = 10 * time.Second

// liveness is C7: when all has healed each key is granted again within the TTL
// and a second, and from then on handed over quickly. How busy the machine is
// has its part in that, but not in a key that is never granted again: that
// fails the run. The stalls that a worker has felt since the last fault do not
// count.
func (v *verdict) liveness(h *history, r *run) {
	limit := mostTTL + time.Second
	var stalls time.Duration
	for _, l := range h.lives {
		stalls = max(stalls, within(l.frozen, r.calm, r.to))
	}
	limit += stalls
	for key, visits := range h.keys {
		healed := slices.ContainsFunc(visits, func(x *visit) bool {
			return x.got > r.calm && x.got < r.calm+int64(limit)
		})
		again := slices.ContainsFunc(visits, func(x *visit) bool { return x.got > r.calm })
		if !again && r.to-r.calm > int64(stuck) {
			v.violate(soundRun, "key %d was not granted any more in the %v after the last fault", key,
				time.Duration(r.to-r.calm))
		}
		if long := r.to-r.calm > int64(limit); long && !healed {
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
func (v *verdict) handOvers(h *history, r *run) (overs, slow int) {
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

// isCalm reports whether nothing has happened for some time.
func (r *run) isCalm(h *history, at int64) bool {
	return at < r.to && !slices.ContainsFunc(h.faults, func(f fault) bool {
		return f.touches(at-int64(2*mostTTL), at+1)
	})
}

// residue is C8: a closed locker leaves nothing in its process, and no key
// without a TTL anywhere, nor one of a lease.
func (v *verdict) residue(h *history, r *run) {
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
	for name, ms := range r.left {
		if ms < 0 {
			v.violate(residue, "%s has no TTL", name)
		}
		for key := range r.cfg.keys {
			if slices.Contains(r.lib.Keys(keyName(key)), name) {
				v.violate(residue, "%s is held by nobody, for %d ms more", name, ms)
			}
		}
	}
}
