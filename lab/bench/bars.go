package main

import "fmt"

// bar is one property to show. It is a number of each round whose median must
// reach a limit.
type bar struct {
	workload string
	what     string
	least    bool // the limit is a minimum; otherwise a maximum
	limit    float64
	of       func(d *data, round int) (float64, bool)
}

// verdict is a bar and its result in this run.
type verdict struct {
	Workload string    `json:"workload"`
	What     string    `json:"what"`
	Bar      string    `json:"bar"`
	Median   float64   `json:"median"`
	Met      bool      `json:"met"`
	Rounds   []float64 `json:"rounds"`
}

// judge leaves out bars without measurements.
func judge(d *data) (vs []verdict) {
	for _, b := range bars() {
		var rounds []float64
		for round := range d.rounds {
			if v, ok := b.of(d, round+1); ok {
				rounds = append(rounds, v)
			}
		}
		if len(rounds) == 0 {
			continue
		}
		m, sign := median(rounds), "<="
		met := m <= b.limit
		if b.least {
			sign, met = ">=", m >= b.limit
		}
		vs = append(vs, verdict{b.workload, b.what, fmt.Sprintf("%s %g", sign, b.limit), m, met, rounds})
	}
	return vs
}

var (
	redislocks   = peersOf("redislock")
	rueidislocks = peersOf("rueidislock")
	everyPeer    = peersOf()
	earlier      = []string{before}
)

// bars are the bars of the project, workload by workload.
func bars() []bar {
	var all []bar
	least := func(w, what string, limit float64, of func(*data, int) (float64, bool)) {
		all = append(all, bar{w, what, true, limit, of})
	}
	most := func(w, what string, limit float64, of func(*data, int) (float64, bool)) {
		all = append(all, bar{w, what, false, limit, of})
	}
	spreadBars(least, most)
	earlierBars(least, most)
	lingerBars(least, most)
	least("hot-1x100", "x serial", 0.9, over("hot-1x100", "rate", []string{serial}))
	least("hot-1x100", "x rueidislock", 1.5, over("hot-1x100", "rate", rueidislocks))
	most("hot-1x100", "lock commands per call", 0.3, value("hot-1x100", "cmds/call"))

	least("hot-4x25", "x serial", 0.92, over("hot-4x25", "rate", []string{serial}))
	least("hot-4x25", "x best peer", 1.3, over("hot-4x25", "rate", everyPeer))
	most("hot-4x25", "p99 / that peer's p99", 0.2, tailOverBest("hot-4x25"))
	least("hot-4x25", "Jain index over processes", 0.9, value("hot-4x25", "jain"))
	most("hot-4x25", "p99 / ideal FIFO wait", 2, quotient("hot-4x25", "p99 ms", "ideal ms"))
	most("hot-4x25", "p99.9 / ideal FIFO wait", 3, quotient("hot-4x25", "p99.9 ms", "ideal ms"))

	least("hot-8x1", "Jain index over processes", 0.9, value("hot-8x1", "jain"))
	most("hot-8x1", "p99 / ideal FIFO wait", 8, quotient("hot-8x1", "p99 ms", "ideal ms"))

	least("open-4x", "highest good rate x best peer's", 2.5, over("open-4x", "top rate", everyPeer))
	least("open-4x", "highest good rate / serial", 0.6, overSerial)
	most("open-4x", "lock commands per call, at the worst good rung", 4, value("open-4x", "cmds/call"))

	least("overload", "goodput / capacity", 0.9, quotient("overload", "goodput", "capacity"))
	most("overload", "p99 of refusals, ms", 50, value("overload", "refused p99 ms"))

	most("takeover", "median / round trip", 2.8, quotient("takeover", "p50 ms", "round trip ms"))
	most("takeover", "p99 / round trip", 20, quotient("takeover", "p99 ms", "round trip ms"))

	most("waiters", "lock commands/s from waiting", 20, value("waiters", "commands/s"))
	most("waiters", "heap bytes per waiter", 2048, value("waiters", "heap/waiter"))
	most("waiters", "cancel-all, ms", 200, value("waiters", "cancel ms"))

	most("leases", "leases lost", 0, value("leases", "lost"))
	most("leases", "goroutines in all", 25, value("leases", "goroutines"))
	most("leases", "CPU, % of one core", 15, value("leases", "cpu %"))

	most("cut", "calls not served", 0, value("cut", "not served"))
	most("cut", "longest extra wait / poll cap", 1.1, func(d *data, round int) (float64, bool) {
		v, ok := d.get("cut", ours, "max ms", round)
		return v / pollCap, ok
	})
	return all
}

// barFunc adds a bar.
type barFunc func(workload, what string, limit float64, of func(*data, int) (float64, bool))

// spreadBars are the bars for keys that callers do not share.
func spreadBars(least, most barFunc) {
	for _, s := range []struct {
		name                        string
		redislock, rueidislock, cpu float64
	}{
		{"spread-1", 0.97, 0, 1},
		{"spread-4", 1.1, 0, 0},
		{"spread-8", 1, 1.15, 1},
		{"spread-16", 1, 1.2, 0},
		{"spread-64", 1.6, 1.2, 0.75},
		{"spread-512", 2, 1.2, 0},
	} {
		if s.cpu > 0 {
			most(s.name, "client's processor time of a call, x plain redislock", s.cpu,
				over(s.name, "client us", redislocks))
		}
		least(s.name, "x plain redislock", s.redislock, over(s.name, "rate", redislocks))
		if s.rueidislock > 0 {
			least(s.name, "x rueidislock", s.rueidislock, over(s.name, "rate", rueidislocks))
		}
	}
}

// earlierBars compare with an earlier build, and with the best peer at a
// take-over.
func earlierBars(least, most barFunc) {
	least("hot-8x1", "x an earlier build", 1.25, over("hot-8x1", "rate", earlier))
	least("hot-4x25", "x an earlier build", 1.1, over("hot-4x25", "rate", earlier))
	least("hot-1x100", "x an earlier build", 1, over("hot-1x100", "rate", earlier))
	most("takeover", "median / an earlier build's", 0.75, over("takeover", "p50 ms", earlier))
	most("takeover", "median / rueidislock's", 0.72, over("takeover", "p50 ms", []string{"rueidislock"}))
	most("hot-8x1", "lock commands per call", 2.2, value("hot-8x1", "cmds/call"))
}

// lingerBars compare guard with keys that linger with the best peer on keys of
// one's own, and elsewhere with guard without them.
func lingerBars(least, most barFunc) {
	for i, w := range []string{"spread-1", "spread-8", "spread-64"} {
		limit := []float64{30, 10, 6}[i]
		least(w, "with linger x best peer", limit, func(d *data, round int) (float64, bool) {
			return d.ratio(w, "rate", linger, d.best(w, "rate", everyPeer), round)
		})
		most(w, "with linger, lock commands per call", 0.05, func(d *data, round int) (float64, bool) {
			return d.get(w, linger, "cmds/call", round)
		})
	}
	for i, w := range []string{"mixed", "hot-4x25", "hot-8x1", "rebalance"} {
		limit := []float64{0.95, 0.95, 0.95, 5}[i]
		least(w, "with linger x guard without", limit, func(d *data, round int) (float64, bool) {
			return d.ratio(w, "rate", linger, ours, round)
		})
	}
}

const pollCap = 250.0 // ms, the longest pause of guard's default backoff

// value is a measure of guard.
func value(workload, measure string) func(*data, int) (float64, bool) {
	return func(d *data, round int) (float64, bool) { return d.get(workload, ours, measure, round) }
}

// quotient is one measure of guard divided by another.
func quotient(workload, measure, by string) func(*data, int) (float64, bool) {
	return func(d *data, round int) (float64, bool) {
		a, okA := d.get(workload, ours, measure, round)
		b, okB := d.get(workload, ours, by, round)
		return a / b, okA && okB && b > 0
	}
}

// over is guard's measure divided by that of the best of libs in the same
// round.
func over(workload, measure string, libs []string) func(*data, int) (float64, bool) {
	return func(d *data, round int) (float64, bool) {
		return d.ratio(workload, measure, ours, d.best(workload, measure, libs), round)
	}
}

// tailOverBest is guard's p99 divided by that of the peer with the highest
// rate.
func tailOverBest(workload string) func(*data, int) (float64, bool) {
	return func(d *data, round int) (float64, bool) {
		return d.ratio(workload, "p99 ms", ours, d.best(workload, "rate", everyPeer), round)
	}
}

// ratio is a library's measure divided by that of another.
func (d *data) ratio(workload, measure, lib, other string, round int) (float64, bool) {
	v, ok := d.get(workload, lib, measure, round)
	theirs, okOther := d.get(workload, other, measure, round)
	return v / theirs, ok && okOther && theirs > 0
}

func overSerial(d *data, round int) (float64, bool) {
	top, ok := d.get("open-4x", ours, "top rate", round)
	rate, okSerial := d.get("open-4x", serial, "rate", round)
	return top / rate, ok && okSerial && rate > 0
}
