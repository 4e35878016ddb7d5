package judge

import "slices"

// fencedCounter is C1. In the order of the store, tokens never fall and each
// write follows the one before. Each write that was answered is there once.
func (v *Verdict) fencedCounter(h *History) {
	for key, log := range h.log {
		var token uint64
		var value int64
		seen := map[string]int{}
		for _, e := range log {
			if e.Kind != 'f' {
				continue
			}
			seen[e.ID]++
			if e.Token < token {
				v.violate(fencedExclusion, "key %d: token %d was let in after %d: %v", key,
					e.Token, token, h.byID[e.ID])
			}
			if e.Base != value {
				v.violate(fencedExclusion, "key %d: a write of token %d is based on %d, but %d was written: %v", key,
					e.Token, e.Base, value, h.byID[e.ID])
			}
			token, value = e.Token, e.Base+1
		}
		for _, x := range h.keys[key] {
			if answered := x.wrote != 0 && !x.refused && x.token != 0; h.complete && answered && seen[x.id()] != 1 {
				v.violate(fencedExclusion, "key %d: a write that was answered is "+
					"there %d times: %v", key, seen[x.id()], x)
			}
		}
	}
}

// unfencedCounter is C4. A write that is not based on the one before has lost
// that one. The loss is explained if the servers had lost leases. It is also
// explained if a process did not run between its last look at its lease and its
// write.
func (v *Verdict) unfencedCounter(h *History) {
	for key, log := range h.log {
		var value int64
		var before *visit
		for _, e := range log {
			if e.Kind != 'u' {
				continue
			}
			x := h.byID[e.ID]
			if e.Base != value {
				v.lost++
				if !h.explained(x) && !h.explained(before) {
					v.violate(unfencedCounter, "key %d: it was %d, and %d was written:\n    %v\n    after %v", key,
						value, e.Base+1, x, before)
				}
			}
			value, before = e.Base+1, x
		}
	}
}

// explained reports whether v may have written when it no longer held the key.
func (h *History) explained(v *visit) bool {
	if v == nil {
		return false
	}
	end := v.wrote
	if end == 0 {
		end = v.over()
	}
	late := v.until != 0 && end > v.until
	asleep := slices.ContainsFunc(v.frozen, func(s Span) bool { return s.touches(v.held, end) })
	return late || asleep || h.forgets(v, v.got, end)
}
