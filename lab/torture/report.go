package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// report prints the findings, with a column for each library.
func report(out io.Writer, cfg config, verdicts []*verdict) {
	if len(verdicts) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s, %v each, seed %d, %d processes x %d callers on %d keys, TTLs of 0.3 to 1.5 s\n\n",
		cfg.topology, cfg.length, cfg.seed, cfg.procs, cfg.callers, cfg.keys)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, cell func(*verdict) any) {
		fmt.Fprint(w, name)
		for _, v := range verdicts {
			fmt.Fprintf(w, "\t%v", cell(v))
		}
		fmt.Fprintln(w)
	}
	row("", func(v *verdict) any { return v.lib.Name })
	row("grants", func(v *verdict) any { return v.grants })
	row("waits in vain", func(v *verdict) any { return v.refusals })
	for _, k := range cfg.faults {
		row("fault: "+k, func(v *verdict) any { return v.faults[k] })
	}
	for _, c := range checks {
		row(titles[c], func(v *verdict) any { return v.violations[c] })
	}
	row("holders told of a loss", func(v *verdict) any { return v.told })
	row("lost updates on the unfenced counter", func(v *verdict) any { return v.lost })
	row("writes refused by the fence", func(v *verdict) any {
		if !v.lib.Tokens {
			return "no tokens"
		}
		return v.fenced
	})
	for _, r := range cfg.roles {
		row("turns: "+r, func(v *verdict) any { return v.turnsOf(r) })
	}
	ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	row("longest time that a key was free", func(v *verdict) any { return ms(v.idle) })
	for _, kind := range gapKinds(verdicts) {
		row("free while somebody waited, after "+kind, func(v *verdict) any {
			return fmt.Sprintf("%d, longest %s", v.free[kind].count, ms(v.free[kind].longest))
		})
	}
	row("longest wait in calm times, without long sections", func(v *verdict) any { return ms(v.starved) })
	row("waits more than 50ms beyond their bound", func(v *verdict) any { return v.beyond })
	row("longest wait beyond its bound", func(v *verdict) any { return ms(v.excess) })
	row("closest call from a loss to the key's end", func(v *verdict) any {
		if v.closeness < 0 {
			return "-"
		}
		return ms(v.closeness)
	})
	row("stalls of the machine, left out", func(v *verdict) any { return ms(v.stalls) })
	_ = w.Flush()
	for _, v := range verdicts {
		for _, text := range v.texts {
			fmt.Fprintf(out, "\n%s VIOLATES %s\n", v.lib.Name, text)
		}
		if v.total() > 0 {
			fmt.Fprintf(out, "\nagain: %s\n", v.replay)
		}
	}
}

// turnsOf counts the turns of a role, and how many of them were at once.
func (v *verdict) turnsOf(role string) string {
	switch role {
	case partition: // a writer to the judge
		role = writer
	case cart:
		return strconv.Itoa(v.turns[role])
	case once, payment:
		return fmt.Sprintf("%d calls, %d functions, %d keys", v.turns[role], v.runs[role], v.names[role])
	}
	return fmt.Sprintf("%d, at most %d at once", v.turns[role], v.atOnce[role])
}

// gapKinds returns the faults after which at least one of the libraries had
// gaps.
func gapKinds(verdicts []*verdict) []string {
	all := map[string]bool{}
	for _, v := range verdicts {
		for kind := range v.free {
			all[kind] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

var titles = map[string]string{ //nolint:gosec // tokens of fencing are no credentials
	fencedExclusion: "C1 fenced exclusion",
	tokenOrder:      "C2 tokens rise",
	exclusion:       "C3 exclusion while promised",
	unfencedCounter: "C4 unexplained lost updates",
	toldInTime:      "C5 told before the key ends",
	boundedWait:     "C6 waits are bounded",
	liveness:        "C7 keys are granted",
	residue:         "C8 nothing is left",
	handOff:         "C9 hand-offs",
	starved:         "C10 nobody is starved",
	gapBound:        "C11 free keys find a waiter",
	oneResult:       "C12 one result",
	soundRun:        "the run itself",
}
