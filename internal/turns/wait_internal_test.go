package turns

import (
	"errors"
	"testing"
	"time"
)

// What a turn does next, whose contender would try or pause for an hour. The
// limit of a try is 500 ms.
func TestTheNextActionFitsIntoTheWait(t *testing.T) {
	s := settings()
	for name, c := range map[string]struct {
		asleep, once bool
		left         time.Duration // of the wait
		attempts     int
		stood        bool // in line
		do           actionKind
		err          error
	}{
		"a wait that is over before its first try":       {left: -50 * time.Millisecond, do: toTry},
		"a wait that is over after a try":                {left: -50 * time.Millisecond, attempts: 1, err: errNoWait},
		"a wait that is over when the floor comes":       {left: -50 * time.Millisecond, stood: true, err: errNoWait},
		"a wait that has had the limit of its first try": {left: -time.Second, err: errNoWait},
		"one attempt does not pause":                     {asleep: true, once: true, do: toTry},
		"a pause ends with the wait":                     {asleep: true, left: time.Second, do: toPause},
		"a try that is due":                              {left: time.Second, attempts: 3, do: toTry},
	} {
		now := time.Now()
		turn := &Turn{
			common: new(common), gate: new(gate), set: &s,
			waiting: waiting{
				attempts: c.attempts,
				patience: Patience{Start: now.Add(min(c.left, 0)), Until: now.Add(c.left), Once: c.once},
			},
		}
		if c.stood {
			turn.given = make(chan struct{}, 1)
		}
		co := &turn.gate.contender
		co.openBid(&bid{terms: turn.terms()})
		if c.asleep {
			co.alarm.sleep(now.Add(time.Hour))
		}
		a, err := (&waiter{Turn: turn}).nextAction(t.Context())
		if !errors.Is(err, c.err) || err == nil && a.do != c.do || a.do == toPause && err == nil && a.left > c.left {
			t.Errorf("%s: it does %d for %v, %v; want %d, %v", name, a.do, a.left, err, c.do, c.err)
		}
	}
}
