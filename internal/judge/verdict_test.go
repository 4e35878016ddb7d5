package judge

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// A run of a mutant ends with the first violation that is found. Violations
// that come later, or hide behind another, are planted here.

const block = locker.FenceBlock

// mostTTL is the longest TTL.
const mostTTL = 1500 * time.Millisecond

var own = Library{Name: "guard", Own: true, Tokens: true, Tells: true}

// turn is a visit of a process that got key 0, used it for 10 and wrote in the
// middle.
func turn(l *lifetime, nth, got int64, token uint64) *visit {
	return &visit{
		lifetime: l, nth: nth, asked: got - 5, got: got, token: token, has: true, until: got + 1000, held: got + 8,
		wrote: got + 5, exit: got + 10,
	}
}

// told makes a history of turns on key 0 and of the store's log.
func told(log []Entry, turns ...*visit) *History {
	h := &History{complete: true, most: mostTTL, keys: [][]*visit{turns}, log: [][]Entry{log}}
	h.byID = map[string]*visit{}
	for _, x := range turns {
		h.byID[x.id()] = x
	}
	return h
}

func TestTheJudgeFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	a, b := &lifetime{proc: 1, number: 1}, &lifetime{proc: 2, number: 1}
	one, two, three := turn(a, 1, 100, block), turn(a, 2, 200, block+1), turn(b, 1, 300, 9*block)
	fenced := func(x *visit, base int64) Entry { return Entry{'f', x.id(), x.token, base} }
	trusted := func(x *visit, base int64) Entry { return Entry{'u', x.id(), x.token, base} }
	sound := []Entry{
		trusted(one, 0), fenced(one, 0), trusted(two, 1), fenced(two, 1),
		trusted(three, 2), fenced(three, 2),
	}
	spoil := func(x *visit, how func(*visit)) *visit {
		c := *x
		how(&c)
		return &c
	}
	many := []*visit{one}
	for i := range int64(block) { // one more than fit
		many = append(many, turn(a, 2+i, 100+20*(i+1), block+uint64(i)))
	}
	for name, c := range map[string]struct {
		h    *History
		want string // the check; "" if nothing is wrong
	}{
		"all is well":             {told(sound, one, two, three), ""},
		"a lower token is let in": {told([]Entry{fenced(two, 0), fenced(one, 1)}, one, two), fencedExclusion},
		"a fenced update is lost": {told([]Entry{fenced(one, 0), fenced(two, 0)}, one, two), fencedExclusion},
		"a write has vanished":    {told([]Entry{fenced(one, 0)}, one, two), fencedExclusion},
		"a write is there twice": {told([]Entry{fenced(one, 0), fenced(one, 1), fenced(two, 2)}, one,
			two), fencedExclusion},
		"an update is lost": {told([]Entry{trusted(one, 0), fenced(one, 0), trusted(two, 0), fenced(two, 1)}, one,
			two), unfencedCounter},
		"one that slept loses an update": {told([]Entry{
			trusted(one, 0), fenced(one, 0),
			trusted(two, 0), fenced(two, 1),
		}, one,
			spoil(two, func(x *visit) { x.until = 204 })), ""},
		"a turn has no token": {told(nil,
			spoil(one, func(x *visit) { x.token, x.wrote = 0, 0 })), tokenOrder},
		"the store does not answer which token a turn has": {told(nil,
			spoil(one, func(x *visit) { x.token, x.wrote, x.untold = 0, 0, true })), ""},
		"a turn that was lost has none": {told(nil,
			spoil(one, func(x *visit) { x.token, x.wrote, x.lost, x.until = 0, 0, 105, 105 })), ""},
		"a turn that had ended before it began has none": {told(nil,
			spoil(one, func(x *visit) { x.token, x.wrote, x.held, x.until = 0, 0, 0, 99 })), ""},
		"two have one token": {told(nil, spoil(one, unwritten),
			spoil(three, func(x *visit) { x.token, x.wrote = block, 0 })), tokenOrder},
		"a later grant has a lower one": {told(nil, spoil(three, unwritten),
			spoil(one, func(x *visit) { x.asked, x.got, x.wrote = 400, 410, 0 })), tokenOrder},
		"another gets it meanwhile": {told(nil, spoil(one, unwritten),
			spoil(three, func(x *visit) { x.got, x.wrote = 104, 0 })), exclusion},
		"readers and then a writer": {told(nil, shared(turn(a, 1, 100, 0)), shared(turn(b, 1, 101, 0)),
			spoil(three, unwritten)), ""},
		"a writer beside a reader": {told(nil, shared(turn(a, 1, 298, 0)), spoil(three, unwritten)), exclusion},
		"a reader beside a writer": {told(nil, spoil(three, unwritten), shared(turn(a, 1, 301, 0))), exclusion},
		"as many permits as there are": {told(nil, permits(2, turn(a, 1, 100, block)),
			permits(2, turn(b, 1, 101, 2*block))), ""},
		"one permit too many": {told(nil, permits(2, turn(a, 1, 100, block)),
			permits(2, turn(b, 1, 101, 2*block)), permits(2, turn(a, 2, 102, 3*block))), exclusion},
		"the smaller number of permits counts": {told(nil, permits(2, turn(a, 1, 100, block)),
			permits(3, turn(b, 1, 101, 2*block)), permits(3, turn(a, 2, 102, 3*block))), exclusion},
		"a permit that is handed on counts once": {told(nil, permits(2, turn(a, 1, 100, block)),
			permits(2, turn(b, 1, 101, 2*block)), permits(2, turn(a, 2, 109, block+1))), ""},
		"permits begin in any order": {told(nil, permits(2, turn(a, 1, 100, 2*block)),
			permits(2, turn(b, 1, 101, block))), ""},
		"two permits have one token": {told(nil, permits(2, turn(a, 1, 100, block)),
			permits(2, turn(b, 1, 101, block))), tokenOrder},
		"a permit has a lower token than a writer before": {told(nil, spoil(one, unwritten),
			permits(2, turn(b, 1, 200, block-1))), tokenOrder},
		"a reader's share ends with its promise": {told(nil,
			spoil(shared(turn(a, 1, 290, 0)), func(x *visit) { x.until, x.exit = 295, 295 }),
			spoil(three, unwritten)), ""},
		"a call inside is its turn": {told(nil, spoil(one, func(x *visit) { x.wrote, x.inner = 0, block })), ""},
		"a call inside is another turn": {told(nil,
			spoil(one, func(x *visit) { x.wrote, x.inner = 0, block+1 })), handOff},
		"a call inside is refused": {told(nil,
			spoil(one, func(x *visit) { x.wrote, x.denied = 0, true })), handOff},
		"a turn on a lost grant": {told(nil,
			spoil(one, func(x *visit) { x.lost, x.until, x.wrote = 105, 105, 0 }), spoil(two, unwritten)), handOff},
		"it was lost before its time": {told(nil,
			spoil(one, func(x *visit) { x.lost, x.until, x.wrote = 102, int64(time.Second), 0 })), exclusion},
		"it was lost before its release": {told(nil, spoil(one, released), spoil(two, unwritten)), exclusion},
		"it was flushed before its release": {flushed(told(nil, spoil(one, released), spoil(two, unwritten)),
			Span{120, 130}), ""},
		"another key of a cart was lost": {told(nil,
			spoil(one, func(x *visit) { x.lost, x.until, x.wrote, x.cart = 102, int64(time.Second), 0, true }),
			spoil(two, unwritten)), ""},
		"too many turns on a grant": {told(nil, many...), handOff},
		"it was used beyond its end": {told(nil,
			spoil(one, func(x *visit) { x.exit += int64(time.Second); x.wrote = 0 })), toldInTime},
		"its key has no TTL": {told(nil,
			spoil(one, func(x *visit) { x.wrote, x.probe = 0, &Probe{Until: 1000, At: 104, TTL: endless} })), residue},
		"its key ends before it": {told(nil,
			spoil(one, func(x *visit) { x.wrote, x.probe = 0, &Probe{Until: 1000, At: 104} })), toldInTime},
		"it has waited too long": {told(nil,
			spoil(one, func(x *visit) { x.asked -= int64(time.Second); x.wrote = 0 })), boundedWait},
		"it was frozen as it waited": {told(nil, spoil(one, func(x *visit) {
			x.asked, x.wrote, x.lifetime = x.asked-int64(time.Second), 0,
				&lifetime{frozen: []Span{{-int64(time.Second), 90}}}
		})), ""},
	} {
		for key := range c.h.keys { // times look at the lives
			c.h.lives = append(c.h.lives, &lifetime{visits: c.h.keys[key]})
		}
		v := newVerdict(own)
		v.fencedCounter(c.h)
		v.unfencedCounter(c.h)
		v.tokens(c.h)
		v.exclusion(c.h)
		v.handOffs(c.h)
		v.times(c.h, &Run{Slack: 100 * time.Millisecond})
		if v.Total() > 0 != (c.want != "") || c.want != "" && v.violations[c.want] == 0 {
			t.Errorf("%s: want %q, got %v\n%v", name, c.want, v.violations, v.Texts)
		}
	}
}

func unwritten(x *visit) { x.wrote = 0 }

// released makes x one whose release finds the loss, after the section's end.
func released(x *visit) {
	x.until, x.wrote, x.taken, x.freed = int64(time.Second), 0, true, 150
}

func flushed(h *History, s Span) *History {
	h.forgetful = []forgetful{{Span: s}}
	return h
}

// shared makes the turn of a reader, and permits that of one of n.
func shared(x *visit) *visit { return permits(locker.NoLimit, x) }

func permits(n int, x *visit) *visit {
	x.limit, x.wrote = n, 0
	return x
}

func TestAStarvedCallerIsFound(t *testing.T) {
	t.Parallel()
	old, today := &lifetime{proc: 1, number: 1}, &lifetime{proc: 2, number: 1}
	const second = int64(time.Second)
	waits := func(from, to int64, spoil func(*visit)) *visit {
		x := turn(old, 1, to, 1)
		x.asked, x.bound = from, 3*second
		spoil(x)
		return x
	}
	same := func(*visit) {}
	var turns []*visit // of the other version, every 100 ms
	for i := range int64(40) {
		turns = append(turns, turn(today, i, i*second/10, 1))
	}
	long := turn(today, 99, second, 1) // as long as the wait
	long.exit = 4 * second
	among := turn(today, 98, second/2, 0) // a reader's, as long as the wait, that others have begun after
	among.exit, among.limit = 4*second, locker.NoLimit
	for name, c := range map[string]struct {
		x      *visit
		others []*visit
		want   bool
	}{
		"it waits for a reader among others": {
			waits(second, 7*second/2, same),
			slices.SortedFunc(slices.Values(append(slices.Clone(turns), among)),
				func(a, b *visit) int { return cmp.Compare(a.got, b.got) }), false,
		},
		"it waits while others have turns": {waits(second, 7*second/2, same), turns, true},
		"it waits for a moment":            {waits(second, 2*second, same), turns, false},
		"it waits for one long section":    {waits(second, 7*second/2, same), []*visit{long}, false},
		"its process did not run": {waits(second, 7*second/2,
			func(x *visit) { x.lifetime = &lifetime{frozen: []Span{{second, 3 * second}}} }), turns, false},
		"its locker is closed": {waits(second, 7*second/2,
			func(x *visit) { x.closing = true }), turns, false},
		"it was willing to wait for less": {waits(second, 7*second/2,
			func(x *visit) { x.bound = second }), turns, false},
		"a fault has come just before": {waits(second/2, 3*second, same), turns, false},
	} {
		h := told(nil, c.others...)
		h.lives = []*lifetime{{visits: []*visit{c.x}}}
		h.faults = []Fault{{Span: Span{-4 * second, -2*second - second/4}}}
		v := newVerdict(own)
		v.starvation(h, &Run{Most: mostTTL, To: 10 * second})
		if found := v.violations[starved] > 0; found != c.want {
			t.Errorf("%s: found %t, want %t: %v", name, found, c.want, v.Texts)
		}
	}
}

func TestAKeyThatIsNeverGrantedAgainFailsTheRun(t *testing.T) {
	t.Parallel()
	l := &lifetime{}
	calm := int64(time.Minute)
	for _, c := range []struct {
		got  int64
		want bool
	}{{calm + int64(9*time.Second), false}, {calm - 1, true}} {
		v := newVerdict(own)
		v.liveness(told(nil, turn(l, 1, c.got, 1)), &Run{Most: mostTTL, Calm: calm, To: calm + int64(11*time.Second)})
		if v.Fails() != c.want {
			t.Errorf("granted at %v: %v", time.Duration(c.got), v.Texts)
		}
	}
}

// On a busy machine a run may have hardly begun when its time is over.
func TestARunGoesOnUntilItHasSeenEachKeyGrantedAfterTheLastFault(t *testing.T) {
	t.Parallel()
	l := &lifetime{}
	calm := int64(time.Second)
	r := &Run{Least: 10, Calm: calm}
	turns := func(n int, at int64) (all []*visit) {
		for i := range n {
			all = append(all, turn(l, int64(i), at+int64(i), 1))
		}
		return all
	}
	for name, c := range map[string]struct {
		keys [][]*visit
		want bool
	}{
		"enough":           {[][]*visit{turns(9, calm+1), turns(1, calm+1)}, true},
		"too few":          {[][]*visit{turns(8, calm+1), turns(1, calm+1)}, false},
		"a key never":      {[][]*visit{turns(100, calm+1), nil}, false},
		"a key not since ": {[][]*visit{turns(100, calm+1), turns(1, calm)}, false},
	} {
		if got := r.Enough(&History{keys: c.keys}, true); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if r.Enough(&History{keys: [][]*visit{turns(100, calm+1)}}, false) {
		t.Error("a run without faults is over before it has seen a hand-over")
	}
}

func TestStallsAreNoTimeInWhichAKeyCouldBeGranted(t *testing.T) {
	t.Parallel()
	calm := int64(time.Minute)
	late := calm + int64(mostTTL+3*time.Second)
	for _, c := range []struct {
		frozen []Span
		want   int
	}{{nil, 1}, {[]Span{{calm, calm + int64(3*time.Second)}}, 0}, {[]Span{{calm - int64(3*time.Second), calm}}, 1}} {
		l := &lifetime{frozen: c.frozen}
		h := told(nil, turn(l, 1, late, 1))
		h.lives = []*lifetime{l}
		v := newVerdict(own)
		v.liveness(h, &Run{Most: mostTTL, Calm: calm, To: late + int64(time.Second)})
		if v.violations[liveness] != c.want {
			t.Errorf("stalls %v: %v", c.frozen, v.Texts)
		}
	}
}

// Calls whose result is kept leave no turns, but what they have noted.
func TestTheJudgeFindsASecondResult(t *testing.T) {
	t.Parallel()
	result := func(n int64, text string, fresh bool) Record {
		return Record{Kind: KindResult, N: n, Result: text, Fresh: fresh}
	}
	began, undone := Record{Kind: KindBegan}, Record{Kind: KindUndone}
	for name, c := range map[string]struct {
		role    string
		records []Record
		want    int
	}{
		"one function, one result":    {Once, []Record{began, result(1, "a", true), result(2, "a", false)}, 0},
		"it runs again after a crash": {Once, []Record{began, began, result(2, "b", true)}, 0},
		"two results":                 {Once, []Record{began, result(1, "a", true), result(2, "b", false)}, 1},
		"two made a result": {
			Once, []Record{began, result(1, "a", true), began, result(2, "a", true)}, 1,
		},
		"a payment that had done nothing":   {Payment, []Record{began, undone, began, result(2, "b", true)}, 0},
		"a payment that runs again":         {Payment, []Record{began, began, result(2, "b", true)}, 1},
		"a payment that was said to be one": {Payment, []Record{result(1, "a", false), result(2, "b", false)}, 1},
	} {
		for i := range c.records {
			c.records[i].Name = c.role + "1"
		}
		v := newVerdict(own)
		v.results(&History{lives: []*lifetime{{asked: c.records}}})
		if v.violations[oneResult] != c.want {
			t.Errorf("%s: %d violations, want %d: %q", name, v.violations[oneResult], c.want, v.Texts)
		}
	}
}

func TestALeaseIsLeftOnlyByAFaultJustBeforeTheEnd(t *testing.T) {
	t.Parallel()
	end := int64(time.Minute)
	ago := func(d time.Duration) int64 { return end - int64(d) }
	election := func(at int64) *History {
		return NewHistory(Past{Elections: []Span{{at - 1, at}}, Most: mostTTL, Complete: true})
	}
	for name, c := range map[string]struct {
		calm int64
		h    *History
		want int
	}{
		"no fault":                {0, election(1), 1},
		"a fault long before":     {ago(mostTTL), election(1), 1},
		"a fault just before":     {ago(mostTTL) + 1, election(1), 0},
		"an election just before": {0, election(ago(mostTTL)), 0},
		"an election long before": {0, election(ago(2 * mostTTL)), 1},
	} {
		v := newVerdict(own)
		v.residue(c.h, &Run{
			Most: mostTTL, Calm: c.calm, To: end,
			Left: map[string]int64{"lease": 300, "note": 1}, Leases: []string{"lease"},
		})
		if n := v.violations[residue]; n != c.want {
			t.Errorf("%s: %d violations, want %d", name, n, c.want)
		}
	}
}
