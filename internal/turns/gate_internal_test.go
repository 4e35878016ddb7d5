package turns

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
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

// The turn that has the floor meanwhile is wanted by the one that rejoins.
func TestATurnThatRejoinsWantsTheGrantOfTheFloor(t *testing.T) {
	s := settings()
	floor, back, wish := &Turn{set: &s}, &Turn{set: &s}, new(Wish)
	floor.grant = &grant{tenure: newTenure(time.Now())}
	floor.grant.tenure.begin(floor, time.Now())
	gt := &gate{floor: floor, grant: floor.grant}
	heard := wish.C(func() { gt.ask(floor, wish) })
	if wish.told.Load() {
		t.Error("told before anybody waits")
	}
	gt.rejoin(back, nil)
	select {
	case <-heard:
	default:
		t.Error("not told")
	}
}

// An offer says whether other processes wait, whatever was known before (law 9).
func TestAnOfferTellsWhetherOthersWait(t *testing.T) {
	s := settings()
	turn := &Turn{set: &s}
	for _, waiting := range []int{0, 3} {
		gt := &gate{floor: turn, wanted: waiting == 0}
		gt.contender.openBid(&bid{terms: turn.terms(), claim: locker.Claim{Owner: "mine"}})
		gt.granted("mine", locker.Offer{Waiting: waiting})
		a, err := gt.next(turn, time.Now())
		if err != nil || a.do != toTake || gt.wanted != (waiting > 0) {
			t.Errorf("%d wait: next is %d, %v; wanted: %t", waiting, a.do, err, gt.wanted)
		}
	}
}

// What an update of the contender leaves over is abandoned.
func TestABidThatIsOverIsAbandoned(t *testing.T) {
	l := &counter{Locker: memlocker.New()}
	gt := &gate{engine: &Engine{locker: l}}
	gt.contender.openBid(&bid{queued: true})
	gt.update(func(c *contender, _ time.Time) *bid { return c.dropBid() })
	if n := l.abandons.Load(); n != 1 {
		t.Errorf("%d bids were abandoned", n)
	}
}
