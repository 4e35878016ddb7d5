package explore

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// touched is what a step reads or changes: keys of the store, or outside. Two
// steps that touch nothing in common may come in either order.
type touched []string

var (
	nothing touched
	outside = touched{""} // all that is neither of the guard nor of the process
)

// trace sums up what the processes of a run have done. The sum is the same for
// runs that differ only in the order of steps that touch nothing in common.
type trace struct {
	sum   uint64
	last  map[string]uint64 // step, by what it touched
	flush uint64            // last step that touched all
}

// add adds the step behind g.
func (t *trace) add(g *gate, did kind) {
	touches := g.touches
	switch did {
	case lostRequest, pause, longPause, late: // what comes later has a gate of its own
		touches = nothing
	case crash: // the connections of the process end, too
		touches = append(outside, touches...)
	}
	if len(g.kinds) == 0 && len(touches) == 0 {
		return
	}
	touches = append(slices.Clip(touches), "\x00"+g.p.name) // its memory
	h := fnv.New64a()
	_, _ = h.Write([]byte(g.id + "=" + string(did)))
	for _, what := range touches {
		last, known := t.last[what]
		if !known {
			last = t.flush
		}
		_ = binary.Write(h, binary.LittleEndian, last)
	}
	step := h.Sum64()
	for _, what := range touches {
		t.last[what] = step
	}
	if did == flush {
		t.flush = step
		clear(t.last)
	}
	t.sum += step
}
