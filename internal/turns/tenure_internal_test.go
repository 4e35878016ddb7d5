package turns

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// The next event in each state of a tenure, and its time in seconds after the
// turn began. MaxHold is 10 s, and 1 s of the other turn.
func TestATenureKnowsWhatIsDue(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	holds := func(maxHold time.Duration) *Turn { return &Turn{set: &Settings{MaxHold: maxHold}} }
	mine, other := holds(10*time.Second), holds(time.Second)
	between := func(te *tenure) { te.end(mine) }
	unlimited := func(te *tenure) { te.end(mine); te.begin(holds(0), start) }
	told := func(te *tenure) { te.next(at(5)) }
	cooling := func(te *tenure) { te.end(mine); te.cool(mine, at(7)) }
	for name, c := range map[string]struct {
		before func(*tenure)
		now    int
		event  tenureEvent
		turn   *Turn
		next   int // when something is due afterwards; -1: never
	}{
		"a turn that has just begun":   {nil, 4, nothingDue, nil, 5},
		"half of MaxHold":              {nil, 5, halfDue, mine, 10},
		"half of MaxHold, told":        {told, 6, nothingDue, nil, 10},
		"MaxHold":                      {told, 10, maxHoldDue, mine, 10},
		"MaxHold, half of it not told": {nil, 11, maxHoldDue, mine, 11},
		"no MaxHold":                   {unlimited, 99, nothingDue, nil, -1},
		"between two turns":            {between, 99, nothingDue, nil, -1},
		"the turn of another is over":  {func(te *tenure) { te.end(other) }, 5, halfDue, mine, 10},
		"in a cooldown":                {cooling, 6, nothingDue, nil, 7},
		"after a cooldown":             {cooling, 7, cooldownDue, mine, -1},
		"a cooldown that ends early":   {func(te *tenure) { cooling(te); te.endCooldown() }, 7, nothingDue, nil, -1},
		"a turn after a cooldown": {
			func(te *tenure) { cooling(te); te.next(at(7)); te.begin(holds(0), at(7)) },
			99, nothingDue, nil, -1,
		},
		"a turn with a limit after one": {func(te *tenure) {
			unlimited(te)
			te.end(te.on.first)
			te.begin(other, at(7))
		}, 8, maxHoldDue, other, -2},
		"of two turns the one that is due first": {
			func(te *tenure) { te.begin(other, start) }, 1, maxHoldDue, other, 1,
		},
		"a turn beside one with a longer MaxHold": {
			func(te *tenure) { te.begin(holds(30*time.Second), start); told(te) }, 6, nothingDue, nil, 10,
		},
		"the turn beside another that has ended": {
			func(te *tenure) { te.begin(other, start); te.end(other) }, 5, halfDue, mine, 10,
		},
	} {
		mine.spot, other.spot = spot{}, spot{}
		te := newTenure(start)
		te.begin(mine, start)
		if c.before != nil {
			c.before(&te)
		}
		event, turn := te.next(at(c.now))
		if event != c.event || turn != c.turn {
			t.Errorf("%s: event %d is due for %p, want %d for %p", name, event, turn, c.event, c.turn)
		}
		due := te.due()
		if c.next == -1 && !due.IsZero() || c.next >= 0 && !due.Equal(at(c.next)) {
			t.Errorf("%s: then something is due %v after the begin, want %d s", name, due.Sub(start), c.next)
		}
	}
}

func TestATenureEndsAfterItsTurnsOrItsTime(t *testing.T) {
	now := time.Now()
	te := newTenure(now)
	for i := range limits.TenureTurns {
		if !te.open(now) {
			t.Fatalf("it is over after %d turns, want %d", i, limits.TenureTurns)
		}
		if te.begin(&Turn{set: &Settings{}}, now); te.begun != i+1 {
			t.Fatalf("turn %d has number %d", i+1, te.begun)
		}
	}
	if te.open(now) {
		t.Errorf("it is open after %d turns", limits.TenureTurns)
	}
	if te = newTenure(now); te.open(now.Add(limits.TenureTime)) {
		t.Errorf("it is open after %v", limits.TenureTime)
	}
}

func TestATenureIsShortenedToTheLineOfThatMoment(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ begun, waiting, more int }{
		{0, 0, 1}, {0, 3, 4}, {1, 0, 0}, {1, 3, 3}, {5, 1, 1}, {limits.TenureTurns - 1, 10, 1},
	} {
		te := newTenure(now)
		for range c.begun {
			te.begin(&Turn{set: &Settings{}}, now)
		}
		te.shorten(c.waiting)
		te.shorten(limits.TenureTurns) // never makes it longer
		more := 0
		for ; te.open(now); more++ {
			te.begin(&Turn{set: &Settings{}}, now)
		}
		if more != c.more {
			t.Errorf("after %d turns, %d waiting: %d more turns, want %d", c.begun, c.waiting, more, c.more)
		}
	}
}
