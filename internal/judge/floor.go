// Package judge says whether a lock keeps its promises. It has two judges. A
// [Floor] says whether more have a key at once than may: the benches of stores
// ask it. [Run.Judge] looks at the [History] of a run, with its faults: torture
// and guardctl prove ask that.
package judge

import "slices"

// Guest is somebody who has the key.
type Guest interface {
	comparable

	// AtMost returns how many may have the key while the guest has it. 0 and 1
	// mean that it is alone.
	AtMost() int
}

// Floor has the guests who have a key now. It is not safe for concurrent use.
type Floor[G Guest] struct {
	In []G // in the order in which they came

	// Excused reports whether a guest is not counted, because nobody promised
	// that it is alone any more. nil counts all.
	Excused func(G) bool
}

// Enter adds g. It returns how many are counted, and how many the strictest of
// them allows. More are a violation. An excused g is no violation.
func (f *Floor[G]) Enter(g G) (n, most int) {
	f.In = append(f.In, g)
	most = max(g.AtMost(), 1)
	if f.excused(g) {
		return 0, most
	}
	for _, o := range f.In {
		if !f.excused(o) {
			n, most = n+1, min(most, max(o.AtMost(), 1))
		}
	}
	return n, most
}

func (f *Floor[G]) excused(g G) bool { return f.Excused != nil && f.Excused(g) }

// Leave removes those that have gone.
func (f *Floor[G]) Leave(gone func(G) bool) { f.In = slices.DeleteFunc(f.In, gone) }
