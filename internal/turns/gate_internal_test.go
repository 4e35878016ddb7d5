package turns

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
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

// A call expects the turns in line and its own. Shared turns come together.
func TestALineExpectsItsTurnsAndOneMore(t *testing.T) {
	alone, shared := settings(), settings()
	shared.Limit = locker.NoLimit
	var l line
	now := time.Now()
	for range paceTrust {
		l.pace.add(now, 10*time.Millisecond)
	}
	for i, c := range []struct {
		next *Settings
		want time.Duration
	}{
		{nil, 10 * time.Millisecond},
		{&alone, 20 * time.Millisecond},
		{&alone, 30 * time.Millisecond},
		{&shared, 40 * time.Millisecond},
		{&shared, 40 * time.Millisecond},
	} {
		if c.next != nil {
			l.push(&Turn{set: c.next})
		}
		if got := l.expect(); got != c.want {
			t.Errorf("%d in line: expected %v, want %v", i, got, c.want)
		}
	}
}
