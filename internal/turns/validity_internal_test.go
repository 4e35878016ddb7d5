package turns

import (
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// Rows 12 and 13 of docs/faults.md. Neither can be done to one process alone on
// a machine, so the two clocks of a lease are set apart here. If the wall clock
// has moved on by d beside the monotonic one, the wall deadline is nearer by d.

func heldFor(left, wallAhead time.Duration) (*grant, *Turn) {
	end := time.Now().Add(left)
	t := &Turn{set: &Settings{}}
	gr := &grant{validity: validity{
		terms: new(terms), trust: trust{mono: end, wall: end.Round(0).Add(-wallAhead), length: left},
	}}
	gr.tenure.begin(t, time.Now())
	return gr, t
}

func TestFault12AMachineThatSleptFindsItsLeasesLost(t *testing.T) {
	gr, turn := heldFor(time.Minute, 2*time.Minute) // the monotonic clock has stood still
	if err := gr.err(turn); !errors.Is(err, locker.ErrLeaseLost) {
		t.Errorf("got %v, want ErrLeaseLost", err)
	}
	if gr.begin(turn, time.Now()) {
		t.Error("a turn began on it")
	}
	if gr, turn = heldFor(time.Minute, 30*time.Second); gr.err(turn) != nil {
		t.Errorf("after a nap: %v", gr.err(turn))
	}
}

func TestFault13AStepOfTheWallClockNeverStretchesALease(t *testing.T) {
	if gr, turn := heldFor(time.Minute, -time.Hour); gr.err(turn) != nil || gr.trust.left(time.Now()) > time.Minute {
		t.Errorf("set back by an hour: %v, %v left of a minute", gr.err(turn), gr.trust.left(time.Now()))
	}
	if gr, turn := heldFor(-time.Millisecond, -time.Hour); !errors.Is(gr.err(turn), locker.ErrLeaseLost) {
		t.Errorf("set back by an hour, and over: %v", gr.err(turn))
	}
	if gr, turn := heldFor(time.Minute, time.Hour); !errors.Is(gr.err(turn), locker.ErrLeaseLost) {
		t.Errorf("set forward by an hour: %v, want it lost too early rather than too late", gr.err(turn))
	}
}

// A process that was stopped finds its lease lost long after the loss.
func TestALossCountsFromTheDeadlineIfThatHasPassed(t *testing.T) {
	now := time.Now()
	for left, want := range map[time.Duration]time.Duration{time.Second: 0, 0: 0, -time.Minute: -time.Minute} {
		end := now.Add(left)
		gr := &grant{validity: validity{trust: trust{mono: end, wall: end.Round(0)}}}
		if got := gr.endedBy(now).Sub(now); got != want {
			t.Errorf("with %v left it ended %v from now, want %v", left, got, want)
		}
	}
}

// An offer grows by its second renewal. When a server is far, that is sent soon
// enough to be answered, and to be tried once more.
func TestTheSecondRenewalOfAnOfferComesInTime(t *testing.T) {
	now := time.Now()
	for took, want := range map[time.Duration]time.Duration{ // of the 400 ms that are left
		0:                      200 * time.Millisecond,
		150 * time.Millisecond: 50 * time.Millisecond,
		300 * time.Millisecond: 0,
	} {
		end := now.Add(400 * time.Millisecond)
		v := validity{trust: trust{mono: end, wall: end.Round(0), length: time.Minute}}
		if got := v.nextRenewal(now.Add(-took), now).Sub(now); got > want || got < want-time.Millisecond {
			t.Errorf("behind a renewal of %v: %v from now, want %v", took, got, want)
		}
	}
}

// A store may hand over what has no time left: its clock, and not ours, says
// so.
func TestAnOfferOfNoLengthIsNotTaken(t *testing.T) {
	a := action{bid: &bid{claim: locker.Claim{TTL: time.Minute}}, since: time.Now()}
	if gr := grantOffered(&Turn{set: &Settings{}}, a); gr != nil {
		t.Errorf("got a grant until %v", gr.trust.mono)
	}
}

// Half of a fresh lease is late, and of a lease that began short half of what
// was left when its renewal was due.
func TestAnAnswerIsLateByHalf(t *testing.T) {
	now := time.Now()
	const ttl, late = 10 * time.Second, 700 * time.Millisecond
	for name, c := range map[string]struct {
		length time.Duration
		due    time.Duration // after the request that the lease comes from
		half   time.Duration
	}{
		"a whole lease": {ttl, 4 * time.Second, limits.Trusted(ttl) / 2},
		"a short one":   {time.Second, late, (limits.Trusted(time.Second) - late) / 2},
	} {
		if got := trustFrom(now, c.length).half(ttl, now.Add(c.due)); got != c.half {
			t.Errorf("%s: %v, want %v", name, got, c.half)
		}
	}
}
