package turns

import (
	"testing"
)

// A turn is first in line again if its grant did not last until its begin.
func TestATurnThatRejoinsIsFirstInLine(t *testing.T) {
	s := settings()
	floor, waiter, back := &Turn{set: &s}, &Turn{set: &s}, &Turn{set: &s}
	gt := &gate{floor: floor}
	gt.line.push(waiter)
	gt.rejoin(back, nil)
	if gt.line.first != back || back.next != waiter || gt.line.length != 2 {
		t.Errorf("%p is first in a line of %d, want %p", gt.line.first, gt.line.length, back)
	}
	gt.grant = &grant{}
	if gt.rejoin(floor, nil); gt.floor != floor || gt.grant != nil {
		t.Error("a turn on the floor does not contend again")
	}
	gt = &gate{}
	if gt.rejoin(back, nil); gt.floor != back {
		t.Error("a free floor is not taken")
	}
}
