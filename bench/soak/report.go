package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// checks are the violations that a run looks for, in the order of the report.
var checks = []string{"overlap", "token", "lost update", "lost early", "wait", "gap", "leftover", "worker failed", "broken run"}

// report prints what a run has shown.
func (b *book) report(out io.Writer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	c := b.cfg
	fmt.Fprintf(w, "seed %d, %d processes x %d callers on %d keys, TTL %v, mutant %s\n", c.seed, c.procs, c.callers, c.keys, c.ttl, c.mutant)
	fmt.Fprintf(w, "\nturns\t%d in %v, %.0f/s\n", b.turns, b.took.Round(time.Second), float64(b.turns)/b.took.Seconds())
	fmt.Fprintf(w, "leases lost in a section\t%d\n", b.lost)
	for o, n := range b.outcomes {
		fmt.Fprintf(w, "calls: %v\t%d\n", outcome(o), n)
	}
	b.reportFaults(w)
	b.reportWaits(w)
	fmt.Fprintln(w)
	for _, kind := range checks {
		fmt.Fprintf(w, "violations: %s\t%d%s\n", kind, b.violations[kind], b.notAsked(kind))
	}
	w.Flush()
	for _, kind := range slices.Sorted(maps.Keys(b.gaps)) {
		fmt.Fprintf(out, "\nlongest gap, fault: %s: %s\n", kind, b.gaps[kind].text)
	}
	for _, text := range b.texts {
		fmt.Fprintf(out, "\nVIOLATION %s\n", text)
	}
}

// notAsked says what was not checked.
func (b *book) notAsked(kind string) string {
	if b.cfg.flush && slices.Contains([]string{"overlap", "lost update", "lost early", "gap"}, kind) {
		return " (not checked with -flush)"
	}
	return ""
}

// reportFaults prints how often each fault came, and how long a key was free after one that came alone.
func (b *book) reportFaults(w io.Writer) {
	counts := map[string]int{}
	for _, f := range b.faults {
		counts[f.kind]++
	}
	fmt.Fprintf(w, "\nfault\tcount\tgaps > %v while somebody waited\tlongest\n", leastGap)
	for _, kind := range faultNames() {
		if counts[kind] == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%d", kind, counts[kind])
		if t := b.gaps[kind]; t != nil {
			fmt.Fprintf(w, "\t%d\t%v", t.count, t.longest.Round(time.Millisecond))
		}
		fmt.Fprintln(w)
		for _, of := range slices.Sorted(maps.Keys(b.gaps)) {
			if strings.HasPrefix(of, kind+" of") {
				t := b.gaps[of]
				fmt.Fprintf(w, "  %s\t\t%d\t%v\n", of, t.count, t.longest.Round(time.Millisecond))
			}
		}
	}
	for _, of := range []string{"several", "none"} {
		if t := b.gaps[of]; t != nil {
			fmt.Fprintf(w, "%s\t\t%d\t%v\n", of, t.count, t.longest.Round(time.Millisecond))
		}
	}
}

// reportWaits prints how far waits went beyond their bounds.
func (b *book) reportWaits(w io.Writer) {
	if len(b.excess) == 0 {
		return
	}
	slices.Sort(b.excess)
	at := func(q float64) time.Duration {
		return time.Duration(b.excess[min(int(q*float64(len(b.excess))), len(b.excess)-1)]).Round(100 * time.Microsecond)
	}
	beyond := len(b.excess) - sortedBelow(b.excess, int64(50*time.Millisecond))
	fmt.Fprintf(w, "\nwaits\t%d\n", len(b.excess))
	fmt.Fprintf(w, "beyond the bound: p99\t%v\n", at(0.99))
	fmt.Fprintf(w, "beyond the bound: p99.9\t%v\n", at(0.999))
	fmt.Fprintf(w, "beyond the bound: p99.99\t%v\n", at(0.9999))
	fmt.Fprintf(w, "beyond the bound: max\t%v\n", at(1))
	fmt.Fprintf(w, "longest freeze or stall of a worker, left out\t%v\n", b.stall.Round(time.Millisecond))
	fmt.Fprintf(w, "more than 50ms beyond it\t%d\n", beyond)
}

// sortedBelow returns how many of sorted are at most limit.
func sortedBelow(sorted []int64, limit int64) int {
	n, _ := slices.BinarySearch(sorted, limit+1)
	return n
}
