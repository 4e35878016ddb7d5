package explore

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hunt searches the plans of one sim.
type hunt struct {
	*search

	c     *sim
	until time.Time // zero: as long as there are plans
}

// hunt runs c without a fault, which teaches the server its scripts and tells
// how long c takes.
func (c *sim) hunt(t *testing.T, opts ...Option) *hunt {
	t.Helper()
	// Goroutines that one step wakes then go on in the same order. Collections
	// come between the runs, see each.
	procs, percent, most := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1), debug.SetMemoryLimit(2<<30)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs); debug.SetGCPercent(percent); debug.SetMemoryLimit(most) })
	h := &hunt{search: newSearch(t, c.scenario, append([]Option{c.simulated}, opts...)), c: c}
	h.set.runs = 1 << 30
	h.run(nil)
	return h
}

// singles tries one of so many single faults, and returns the story of the
// first run that broke.
func (h *hunt) singles(of int) (level []*result, story string) {
	var given plan
	if h.c.given != "" {
		var err error
		if given, err = parse(h.c.given); err != nil {
			h.t.Fatal(err)
		}
	}
	level = []*result{h.try(given)}
	if len(h.broken) > 0 {
		return nil, h.report()
	}
	if left := level[0].left(); len(left) > 0 {
		h.t.Fatalf("%s: %s does not come", h.c.name, left)
	}
	n := h.c.nth
	return h.each(slices.DeleteFunc(h.next(level, 1), func(plan) bool { n++; return n%of != 0 }))
}

// mostPairs is how many plans of two faults a search chooses from.
const mostPairs = 1 << 18

// pairs tries two faults at once, for so long or 0: first one plan of each
// class, which is the same faults at the same steps, whatever their number.
func (h *hunt) pairs(level []*result, seed uint64, limit time.Duration) (story string) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var plans []plan
	for _, r := range oneOfEach(rng, level, func(r *result) string { return r.plan.class() }) {
		if len(plans) < mostPairs {
			plans = append(plans, h.next([]*result{r}, 2)...)
		}
	}
	if limit > 0 {
		h.until = time.Now().Add(limit)
	}
	_, story = h.each(oneOfEach(rng, plans, plan.class))
	return story
}

// oneOfEach returns all in a random order, but first one of each class, then
// another one of each, and so on.
func oneOfEach[T any](rng *rand.Rand, all []T, class func(T) string) (ordered []T) {
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var classes []string
	left := make(map[string][]T)
	for _, x := range all {
		c := class(x)
		if left[c] == nil {
			classes = append(classes, c)
		}
		left[c] = append(left[c], x)
	}
	for len(classes) > 0 {
		classes = slices.DeleteFunc(classes, func(c string) bool {
			ordered, left[c] = append(ordered, left[c][0]), left[c][1:]
			return len(left[c]) == 0
		})
	}
	return ordered
}

func (h *hunt) each(plans []plan) (level []*result, story string) {
	for i, p := range plans {
		if !h.until.IsZero() && time.Now().After(h.until) {
			h.st.Untried += len(plans) - i
			break
		}
		if i%10 == 0 {
			runtime.GC()
		}
		r := h.try(p)
		if len(h.broken) > 0 {
			return nil, h.report()
		}
		if r != nil {
			level = append(level, r)
		}
	}
	return level, ""
}

func (h *hunt) String() string {
	return fmt.Sprintf("%s: %d runs, %d steps, %d plans left, %d unlike", h.c.name, h.st.Runs, h.st.Steps,
		h.st.Untried, h.st.Unlike)
}

// class is the plan without the numbers of its steps.
func (p plan) class() string {
	var b strings.Builder
	for _, f := range p {
		step, _ := f.step()
		b.WriteString(step + "=" + string(f.k) + ";")
	}
	return b.String()
}

// step is where f comes, and for which time a process comes there.
func (f fault) step() (name string, nth int) {
	name, number, _ := strings.Cut(f.id, "#")
	nth, _ = strconv.Atoi(number)
	return name, max(nth, 1)
}

// next returns the plans with one fault more than those of level. It leaves
// out most faults where a process comes again and again and nothing has
// happened in between, as when it looks for its key. All kinds remain, each one
// at some, and at fewer the longer it goes on.
func (h *hunt) next(level []*result, n int) []plan {
	quiet := make(map[string]bool)
	for _, r := range level {
		for i := 1; i < len(r.decisions); i++ {
			if again(r.decisions[i-1]) && again(r.decisions[i]) {
				quiet[r.plan.String()+";"+r.decisions[i].id] = true
			}
		}
	}
	return slices.DeleteFunc(h.plans(level, n), func(p plan) bool {
		f := p[len(p)-1]
		_, nth := f.step()
		of := 1 << max(3, bits.Len(uint(nth))-2)
		return quiet[p[:len(p)-1].String()+";"+f.id] && (nth+slices.Index(simplest, f.k))%of != 0
	})
}

// again reports whether a process has come to a step often.
func again(d decision) bool {
	_, nth := fault{id: d.id}.step()
	return nth > 4
}
