package judge

import (
	"fmt"
	"slices"
	"time"
)

// The checks, by their names in the table.
//
// A promise ends when the library tells of a loss or its deadline passes.
// Without deadlines it ends when the process first did not run. Servers forget
// by flush, wipe, failover, death and an election. Then C3 and C4 leave out the
// time until earlier leases have ended, and C12 the keys of then. C8 leaves out
// leases that are there then, or within a TTL of the last fault. C2 asks only
// that no two turns have one token. The limits of a worker that got
// no processor are longer by that time. With faults other than kills C11 only
// measures. C11 leaves out the time in which a cart waits, and with carts there
// is no C10.
const (
	fencedExclusion = "C1"  // nothing is lost on the fenced counter, and its tokens never fall
	tokenOrder      = "C2"  // tokens rise in real time, and no two turns have one
	exclusion       = "C3"  // no holder gets a key that another is promised to have, or loses one that it is promised
	unfencedCounter = "C4"  // each loss on the unfenced counter is explained by a fault
	toldInTime      = "C5"  // the holder is told before the key ends, by its deadline or by a look at the server
	boundedWait     = "C6"  // a wait ends with MaxWait, or the limit of a try, + 50 ms + slack
	liveness        = "C7"  // after the last fault keys are granted in time, and hand-overs are quick
	residue         = "C8"  // a closed locker leaves no goroutine, file, lease or key without a TTL; held keys have one
	handOff         = "C9"  // a grant has a bounded number of turns, none after its loss; calls inside share its token
	starved         = "C10" // in calm times no caller waits for more than 2 s while others have turns
	gapBound        = "C11" // no wanted key is free for gapslack longer than a killed holder's TTL, or an offer
	oneResult       = "C12" // a key has one result, of one function, and the function of a payment begins once
	soundRun        = "run"
)

var checks = []string{
	fencedExclusion, tokenOrder, exclusion, unfencedCounter, toldInTime, boundedWait, liveness,
	residue, handOff, starved,
	gapBound, oneResult, soundRun,
}

// promises are the checks that make guard fail. The others depend on how busy
// the machine is, or on properties that were not promised.
var promises = []string{
	fencedExclusion, tokenOrder, exclusion, toldInTime, boundedWait, residue, handOff, gapBound,
	oneResult, soundRun,
}

// Verdict holds the findings of the judge.
type Verdict struct {
	lib        Library
	replay     string
	Grants     int
	refusals   int // waits that ended without the key
	fenced     int // writes that the fence refused
	lost       int // updates that were lost on the unfenced counter
	told       int // holders that were told that their lease was lost
	faults     map[string]int
	free       map[string]gapTally // how long keys were free while a caller waited, by the fault before
	idle       time.Duration       // the longest time in which a key had no holder
	excess     time.Duration       // the max time that a wait took beyond its bound
	beyond     int                 // waits that took more than 50 ms beyond it
	starved    time.Duration       // the longest wait in calm times, without long sections
	closeness  time.Duration       // the min time between telling a holder of its loss and the possible end of the key
	stalls     time.Duration       // of all workers, stops not counted
	atOnce     map[string]int      // how many had a key at once at most, by the role of the last to come
	turns      map[string]int      // by role
	runs       map[string]int      // functions that began, of calls whose result is kept; by role
	names      map[string]int      // keys of such calls, by role
	violations map[string]int
	Texts      []string // of the first violations of each check
}

func newVerdict(lib Library) *Verdict {
	return &Verdict{
		lib: lib, faults: map[string]int{}, violations: map[string]int{}, free: map[string]gapTally{}, closeness: -1,
		atOnce: map[string]int{}, turns: map[string]int{}, runs: map[string]int{}, names: map[string]int{},
	}
}

func (v *Verdict) violate(check, format string, args ...any) {
	most := 1
	if v.lib.Own {
		most = 5
	}
	v.violations[check]++
	if v.violations[check] <= most {
		v.Texts = append(v.Texts, check+": "+fmt.Sprintf(format, args...))
	}
}

// Total returns how many violations were found.
func (v *Verdict) Total() (n int) {
	for _, count := range v.violations {
		n += count
	}
	return n
}

// Fails reports whether a promise of guard was broken, or there was no run.
func (v *Verdict) Fails() bool {
	if !v.lib.Own {
		return v.violations[soundRun] > 0
	}
	for _, check := range promises {
		if v.violations[check] > 0 {
			return true
		}
	}
	return false
}

// Library is what the judge must know of a lock library.
type Library struct {
	Name   string
	Own    bool // it is guard, whose promises are known
	Tokens bool // its leases have fencing tokens
	Tells  bool // it tells a holder of a loss by itself
}

// Run is what a history is judged by.
type Run struct {
	Library Library
	Replay  string // the command that does the same again
	Roles   []string

	Most     time.Duration // the longest TTL
	Late     time.Duration // how long after its TTL a key may be free for others, see locker.Limits
	Slack    time.Duration // what a wait may take beyond its bound
	GapSlack time.Duration // what a key may be free beyond a TTL, or an offer
	Seen     bool          // the role of a killed worker for a key is known
	Least    int           // grants

	Calm, To int64            // when the last fault was over, and when the run was
	Left     map[string]int64 // names in the servers at the end, with their TTLs in ms
	Leases   []string         // which of such names are leases
}

// Judge looks at a history. If that is complete, the checks of the end apply
// too.
func (r *Run) Judge(h *History) *Verdict {
	v := newVerdict(r.Library)
	v.replay = r.Replay
	for _, f := range h.faults {
		v.faults[f.Kind]++
	}
	v.count(h)
	v.fencedCounter(h)
	v.unfencedCounter(h)
	v.tokens(h)
	v.exclusion(h)
	v.handOffs(h)
	v.times(h, r)
	v.gaps(h, r)
	v.results(h)
	v.deaths(h)
	if h.complete {
		v.liveness(h, r)
		v.residue(h, r)
		v.starvation(h, r)
		if v.Grants < r.Least {
			v.violate(soundRun, "only %d grants", v.Grants)
		}
	}
	return v
}

// Enough reports whether a history is enough to judge the run. Each key needs a
// grant after the last fault. A run without faults must have seen hand-overs
// too, because they are its purpose.
func (r *Run) Enough(h *History, faults bool) bool {
	grants := 0
	for _, visits := range h.keys {
		grants += len(visits)
		if !slices.ContainsFunc(visits, func(x *visit) bool { return x.got > r.Calm }) {
			return false
		}
	}
	if !faults {
		if overs, _ := new(Verdict).handOvers(h, r); overs < leastSeen {
			return false
		}
	}
	return grants >= r.Least
}

func (v *Verdict) count(h *History) {
	for _, l := range h.lives {
		for _, x := range l.visits {
			switch {
			case !x.has:
				v.refusals++
				continue
			case x.refused:
				v.fenced++
			}
			if x.lost != 0 && !x.closing {
				v.told++
			}
			v.Grants++
			v.turns[x.countedAs()]++
		}
		for _, s := range l.frozen {
			v.stalls += s.length() - within(l.stops, s.From, s.To)
		}
	}
}

// deaths looks for workers that have failed.
func (v *Verdict) deaths(h *History) {
	for _, l := range h.lives {
		if l.failure != "" {
			v.violate(soundRun, "worker %d.%d %s", l.proc, l.number, l.failure)
		}
	}
}
