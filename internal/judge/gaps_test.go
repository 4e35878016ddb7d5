package judge

import (
	"math"
	"testing"
	"time"
)

// Times are in ms. Key 0 is released at freed.
const (
	freed = 60_000
	ms    = int64(time.Millisecond)
)

// inVain is a call for key 0 that did not get it.
func inVain(l *lifetime, asked, gaveUp int64) *visit {
	return &visit{lifetime: l, asked: (freed + asked) * ms, got: (freed + gaveUp) * ms}
}

// freeFor makes a history in which key 0 is free for that long. The process
// that then gets it has waited for some of that time.
func freeFor(gap, waited int64, others ...*visit) *History {
	before := &visit{lifetime: &lifetime{proc: 1, number: 1}, got: (freed - 10) * ms, has: true, exit: freed * ms}
	after := &visit{
		lifetime: &lifetime{proc: 2, number: 1}, asked: (freed + gap - waited) * ms, got: (freed + gap) * ms,
		has: true, exit: (freed + gap + 10) * ms,
	}
	h := told(nil, before, after)
	h.lives = []*lifetime{{visits: append(others, before, after)}}
	return h
}

func judgedGaps(h *History, seen bool) *Verdict {
	v := newVerdict(own)
	v.gaps(h, &Run{GapSlack: time.Second, Seen: seen})
	return v
}

func TestAGapIsAsLongAsSomebodyWaited(t *testing.T) {
	t.Parallel()
	a, b := &lifetime{proc: 3}, &lifetime{proc: 4, ttl: 800 * time.Millisecond}
	slept := &lifetime{proc: 3, frozen: []Span{{(freed + 50) * ms, (freed + 450) * ms}}}
	closing := inVain(a, -50, 700)
	closing.closing = true
	cart := inVain(b, -500, 300)
	cart.cart = true
	for what, c := range map[string]struct {
		h    *History
		want int64
	}{
		"nobody but the next":         {freeFor(600, 100), 100},
		"one after the other":         {freeFor(600, 100, inVain(a, -50, 300), inVain(b, 200, 550)), 600},
		"with a break":                {freeFor(600, 100, inVain(a, -50, 300)), 300},
		"in a process that slept":     {freeFor(600, 100, inVain(slept, -50, 700)), 150},
		"in a process that is closed": {freeFor(600, 100, closing), 100},
		"while a cart may have it":    {freeFor(2600, 100, cart, inVain(a, -50, 2500)), 1900},
		"too short":                   {freeFor(600, 40), 0},
	} {
		if got := judgedGaps(c.h, true).free[noFault].longest; got != time.Duration(c.want*ms) {
			t.Errorf("%s: %v, want %d ms", what, got, c.want)
		}
	}
}

func TestADeadHolderCostsItsTTLAndADeadWaiterAnOffer(t *testing.T) {
	t.Parallel()
	fell := func(kind string, at, until int64, roles map[int]Role) Fault {
		return Fault{Kind: kind, TTL: mostTTL, Span: Span{(freed + at) * ms, (freed + until) * ms}, Roles: roles}
	}
	kill := func(at int64, was Role) Fault { return fell("kill", at, at+5, map[int]Role{0: was}) }
	unseen := fell("kill", 5, 10, nil)
	pause := fell("pause", 5, 2005, nil)
	lasting := pause
	lasting.To = math.MaxInt64
	for what, c := range map[string]struct {
		faults []Fault
		gap    int64
		kind   string
		broken bool
	}{
		"a holder":                {[]Fault{kill(0, Holder)}, 2400, "kill of a holder", false},
		"a holder, for too long":  {[]Fault{kill(0, Holder)}, 2600, "kill of a holder", true},
		"it died later":           {[]Fault{kill(500, Holder)}, 2900, "kill of a holder", false},
		"it died later, too long": {[]Fault{kill(500, Holder)}, 3100, "kill of a holder", true},
		"a waiter":                {[]Fault{kill(-200, Waiter)}, 1900, "kill of a waiter", false},
		"a waiter, for too long":  {[]Fault{kill(-200, Waiter)}, 2100, "kill of a waiter", true},
		"two waiters":             {[]Fault{kill(-200, Waiter), kill(100, Waiter)}, 1900, manyFaults, false},
		"two waiters, too long":   {[]Fault{kill(-200, Waiter), kill(100, Waiter)}, 2100, manyFaults, true},
		"a holder and a waiter":   {[]Fault{kill(0, Holder), kill(100, Waiter)}, 3400, manyFaults, false},
		"both, for too long":      {[]Fault{kill(0, Holder), kill(100, Waiter)}, 3600, manyFaults, true},
		"two holders":             {[]Fault{kill(0, Holder), kill(1000, Holder)}, 3900, manyFaults, false},
		"two holders, too long":   {[]Fault{kill(0, Holder), kill(1000, Holder)}, 4100, manyFaults, true},
		"a bystander":             {[]Fault{kill(0, Bystander)}, 1900, noFault, false},
		"a bystander, too long":   {[]Fault{kill(0, Bystander)}, 2100, noFault, true},
		"nobody":                  {nil, 1900, noFault, false},
		"nobody, for too long":    {nil, 2100, noFault, true},
		"long before":             {[]Fault{kill(-3600, Holder)}, 2100, noFault, true},
		"when it was due": {
			[]Fault{kill(0, Holder), fell("stop", 2600, 4000, nil)},
			4000,
			"kill of a holder", true,
		},
		"when it was due anyway":   {[]Fault{fell("stop", 2100, 4000, nil)}, 4000, noFault, true},
		"nobody knows what it was": {[]Fault{unseen}, 9000, "kill", false},
		"a fault with no promise":  {[]Fault{pause}, 9000, "pause", false},
		"a fault that goes on":     {[]Fault{lasting}, 9000, "pause", false},
		"and one without":          {[]Fault{pause, kill(100, Waiter)}, 9000, "pause", false},
		"and one with":             {[]Fault{kill(0, Waiter), pause}, 9000, manyFaults, false},
	} {
		h := freeFor(c.gap, c.gap+20)
		h.faults = c.faults
		v := judgedGaps(h, true)
		if got := v.free[c.kind]; got.count != 1 || got.longest != time.Duration(c.gap*ms) {
			t.Errorf("%s: %+v, want %d ms after %s", what, v.free, c.gap, c.kind)
		}
		if c.broken != (v.violations[gapBound] == 1) || c.broken != v.Fails() {
			t.Errorf("%s, a gap of %d ms: %v", what, c.gap, v.Texts)
		}
		if judgedGaps(h, false).Total() > 0 {
			t.Errorf("%s: a promise is broken of which nobody could know", what)
		}
	}
}
