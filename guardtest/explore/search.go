package explore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
)

// endless is more steps than a run can have.
const endless = 100_000

// patient is how long, in real time, a run may go without a step.
var patient = 10 * time.Second

// search is the runs of one Test.
type search struct {
	t        *testing.T
	set      settings
	scenario func(*World)
	st       stats
	seen     map[uint64]bool // whether it broke, by trace
	broken   []*result
	stalled  atomic.Bool // a run stands still, so there are no more
	pool     *pool
	failed   bool // t, before the search
}

// all runs the scenario without a fault, with each single one, and with
// several. all returns the story of the smallest run that broke, or "".
func (x *search) all() (story string) {
	x.t.Helper()
	start := time.Now()
	level := []*result{x.try(nil)}
	for n := 1; n <= x.set.faults && len(x.broken) == 0; n++ {
		plans := x.plans(level, n)
		level = level[:0]
		for _, p := range plans {
			if x.stalled.Load() || x.failsByItself() {
				break
			}
			if r := x.try(p); r != nil {
				level = append(level, r)
			}
		}
	}
	x.st.Took = time.Since(start)
	x.st.Broken = len(x.broken)
	if x.set.stats != nil {
		*x.set.stats = x.st
	}
	if len(x.broken) > 0 {
		return x.report()
	}
	return ""
}

// failsByItself reports whether a run has failed t.
func (x *search) failsByItself() bool { return x.t.Failed() && !x.failed }

// plans returns the plans with one fault more, which are n, the simplest first.
// If the budget does not last for all, it takes some, the same ones each time.
func (x *search) plans(level []*result, n int) (plans []plan) {
	for _, r := range level {
		plans = append(plans, r.more()...)
	}
	slices.SortStableFunc(plans, func(a, b plan) int { return a.rank() - b.rank() })
	if left := max(x.set.runs-x.st.Runs, 0); len(plans) > left {
		rng := rand.New(rand.NewPCG(uint64(n), 0))
		rng.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
		x.st.Untried += len(plans) - left
		plans = plans[:left]
	}
	return plans
}

// try returns nil for a run that is like an earlier one.
func (x *search) try(p plan) *result {
	x.set.late()
	r := x.run(p)
	x.st.Runs++
	x.st.Level = len(p)
	if x.set.twice {
		x.again(p, r)
	}
	x.st.Steps += len(r.decisions)
	if len(r.left()) > 0 {
		x.st.Diverged++
	}
	broke, seen := x.seen[r.trace]
	if seen && broke != (r.err != nil) {
		x.st.Contrary++
	}
	if seen && r.err == nil {
		return nil
	}
	x.seen[r.trace] = r.err != nil
	if r.err != nil {
		x.broken = append(x.broken, r)
	}
	return r
}

// again does the run of a plan again, which must be the same. If the machine
// had no time for one of the two, both are done anew: Go then lets another
// goroutine go on than it would.
func (x *search) again(p plan, r *result) {
	const most = 100
	q, err := parse(p.String())
	if err != nil && len(p) > 0 {
		x.t.Error(err)
	}
	once, again := r.story(0), x.run(q).story(0)
	for n := 1; once != again && n < most && x.set.late(); n++ {
		x.st.Anew++
		once, again = x.run(q).story(0), x.run(q).story(0)
	}
	if once == again {
		return
	}
	if x.st.Unlike++; x.st.Unlike <= 2 {
		x.t.Logf("unlike, %s:\n%s", p, parting(once, again))
	}
}

// parting shows where two stories part.
func parting(a, b string) string {
	const before, behind = 12, 8
	as, bs := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	n := 0
	for n < min(len(as), len(bs)) && as[n] == bs[n] {
		n++
	}
	from := max(n-before, 0)
	return strings.Join(as[from:n], "") + "--- once:\n" + strings.Join(as[n:min(n+behind, len(as))], "") +
		"--- again:\n" + strings.Join(bs[n:min(n+behind, len(bs))], "")
}

// run runs the scenario once, in a bubble of its own.
func (x *search) run(p plan) *result {
	var w atomic.Pointer[World]
	var left atomic.Value // the panic of a bubble with goroutines that block for good
	done := make(chan struct{})
	go func() { // ends with the run; if that stands still, never
		defer close(done)
		end := limits.RepeatJitter()
		defer end()
		defer func() {
			if r := recover(); r != nil {
				left.Store(fmt.Sprint(r))
			}
		}()
		synctest.Test(x.t, func(*testing.T) {
			world := newWorld(p, x.pool)
			if err := world.store.Open(lockerkit.Deaf{}); err != nil {
				panic(err)
			}
			if x.set.network != nil {
				world.leases = x.set.network(world)
			}
			w.Store(world)
			controller{x, world}.drive()
			if world.check != nil {
				world.try("the check", world.check)
			}
			world.finish()
		})
	}()
	if !ends(done, &w) {
		x.stalled.Store(true)
		r := w.Load().result()
		r.stalled = true
		r.err = errors.Join(fmt.Errorf("the run stands still: is a mutex held across a Step, "+
			"does code do real I/O, or try again without a sleep? These do not go on:\n%s", busy()), r.err)
		return r
	}
	r := w.Load().result()
	if text, ok := left.Load().(string); ok && r.err == nil && w.Load().Calm() {
		r.err = fmt.Errorf("goroutines are left at the end of the run: %s", text)
	}
	if x.failsByItself() {
		r.err = errors.Join(errors.New("the scenario fails t by itself: return an error instead"), r.err)
	}
	return r
}

// ends waits for a run. It reports false as soon as the run stands still.
func ends(done <-chan struct{}, w *atomic.Pointer[World]) bool {
	for before := 0; ; {
		select {
		case <-done:
			return true
		case <-time.After(patient):
		}
		now := len(w.Load().result().decisions)
		if now == before || now > endless {
			return false
		}
		before = now
	}
}

// busy tells of goroutines in bubbles that wait for what is outside.
func busy() string {
	const most = 1 << 28
	for buf := make([]byte, 1<<20); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, true); n < len(buf) || n >= most {
			return waiting(string(buf[:n]))
		}
	}
}
