package turns

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// Very many waits rest in proportion to their number, and look again in
// proportion to it when messages may have been missed.
func TestRestsGrowWithTheWaits(t *testing.T) {
	for waits, c := range map[int64]struct{ rest, spread time.Duration }{
		0:          {0, 0},
		299:        {0, 0},
		300:        {300*time.Millisecond + locker.LookEvery, 75 * time.Millisecond},
		4_000:      {4*time.Second + locker.LookEvery, time.Second},
		10_000_000: {locker.MaxRest, 2500 * time.Second},
	} {
		if rest, spread := restFor(waits), wakeSpread(waits); rest != c.rest || spread != c.spread {
			t.Errorf("%d waits rest for %v and spread over %v, want %v and %v", waits, rest, spread, c.rest, c.spread)
		}
	}
}

// A look comes while an offer whose message was lost lasts, and before the
// store drops the claim (law 6).
func TestALookComesInTime(t *testing.T) {
	for name, c := range map[string]struct {
		max, offer, rest, longest time.Duration
	}{
		"the backoff":   {time.Second / 4, time.Minute, 0, time.Second / 4},
		"the queue":     {time.Minute, time.Minute, 0, locker.LookEvery},
		"a short offer": {time.Minute, time.Second, 0, time.Second / 2},
		"a rest":        {time.Second / 4, time.Second, time.Minute, time.Minute - locker.LookEvery},
	} {
		b := Backoff{Initial: time.Millisecond, Max: c.max}
		for range 100 {
			if d := b.look(c.offer, c.rest); d < c.longest/2 || d > c.longest {
				t.Errorf("%s: the next look comes after %v, want up to %v", name, d, c.longest)
			}
		}
	}
}

// All that wait look again, one after the other.
func TestThoseWhoAreWokenTogetherLookInTurn(t *testing.T) {
	for waits, spread := range map[int64]time.Duration{1: 0, 4_000: time.Second} {
		e := open(t, memlocker.New())
		e.paused.Store(waits)
		now := time.Now()
		var ends []time.Time
		for _, name := range []string{"a", "b", "c", "d"} {
			gt := e.gates.enter(name)
			gt.floor, gt.contender.alarm = &Turn{}, alarm{state: asleep, at: now.Add(time.Hour)}
		}
		waker{e}.WakeAll()
		for _, gt := range e.gates.all() {
			ends = append(ends, gt.contender.alarm.at)
			gt.floor = nil
			gt.leave()
		}
		slices.SortFunc(ends, time.Time.Compare)
		if d := ends[len(ends)-1].Sub(ends[0]); d != spread*3/4 {
			t.Errorf("%d waits: four keys are looked at within %v, want %v", waits, d, spread*3/4)
		}
		closed(t, e)
	}
}

// A key counts among the waits of its process while a call sleeps there.
func TestWaitsAreCountedWhileTheyLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		e, other := open(t, mem), open(t, mem.Peer())
		held := mustTake(t, other, settings())
		ctx, leave := context.WithCancel(t.Context())
		for range 2 { // one behind the other, at one key
			go ask(ctx, e, "k", settings()) // ends with ctx
		}
		synctest.Wait()
		if n := e.paused.Load(); n != 1 {
			t.Errorf("%d keys are waited for, want 1", n)
		}
		leave()
		synctest.Wait()
		if n := e.paused.Load(); n != 0 {
			t.Errorf("%d keys are waited for when all have left, want none", n)
		}
		mustEnd(t, held)
		closed(t, e)
		closed(t, other)
	})
}
