package judge

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// Report prints the findings, with a column for each library.
func Report(out io.Writer, title string, faults, roles []string, verdicts []*Verdict) {
	if len(verdicts) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n\n", title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, cell func(*Verdict) any) {
		fmt.Fprint(w, name)
		for _, v := range verdicts {
			fmt.Fprintf(w, "\t%v", cell(v))
		}
		fmt.Fprintln(w)
	}
	row("", func(v *Verdict) any { return v.lib.Name })
	row("grants", func(v *Verdict) any { return v.Grants })
	row("waits in vain", func(v *Verdict) any { return v.refusals })
	for _, k := range faults {
		row("fault: "+k, func(v *Verdict) any { return v.faults[k] })
	}
	for _, c := range checks {
		row(titles[c], func(v *Verdict) any { return v.violations[c] })
	}
	row("holders told of a loss", func(v *Verdict) any { return v.told })
	row("lost updates on the unfenced counter", func(v *Verdict) any { return v.lost })
	row("writes refused by the fence", func(v *Verdict) any {
		if !v.lib.Tokens {
			return "no tokens"
		}
		return v.fenced
	})
	for _, r := range roles {
		row("turns: "+r, func(v *Verdict) any { return v.turnsOf(r) })
	}
	ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	row("longest time that a key was free", func(v *Verdict) any { return ms(v.idle) })
	for _, kind := range gapKinds(verdicts) {
		row("free while somebody waited, after "+kind, func(v *Verdict) any {
			return fmt.Sprintf("%d, longest %s", v.free[kind].count, ms(v.free[kind].longest))
		})
	}
	row("longest wait in calm times, without long sections", func(v *Verdict) any { return ms(v.starved) })
	row("waits more than 50ms beyond their bound", func(v *Verdict) any { return v.beyond })
	row("longest wait beyond its bound", func(v *Verdict) any { return ms(v.excess) })
	row("closest call from a loss to the key's end", func(v *Verdict) any {
		if v.closeness < 0 {
			return "-"
		}
		return ms(v.closeness)
	})
	row("stalls of the machine, left out", func(v *Verdict) any { return ms(v.stalls) })
	_ = w.Flush()
	for _, v := range verdicts {
		for _, text := range v.Texts {
			fmt.Fprintf(out, "\n%s VIOLATES %s\n", v.lib.Name, text)
		}
		if v.Total() > 0 {
			fmt.Fprintf(out, "\nagain: %s\n", v.replay)
		}
	}
}

// turnsOf counts the turns of a role, and how many of them were at once.
func (v *Verdict) turnsOf(role string) string {
	switch role {
	case Partition: // a writer to the judge
		role = Writer
	case Cart:
		return strconv.Itoa(v.turns[role])
	case Once, Payment:
		return fmt.Sprintf("%d calls, %d functions, %d keys", v.turns[role], v.runs[role], v.names[role])
	}
	return fmt.Sprintf("%d, at most %d at once", v.turns[role], v.atOnce[role])
}

// gapKinds returns the faults after which at least one of the libraries had
// gaps.
func gapKinds(verdicts []*Verdict) []string {
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
