package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// columns are the measures of a workload that the report shows. Of the first
// measure the rounds are shown too.
func columns(workload string) []string {
	switch {
	case strings.HasPrefix(workload, "spread-"), workload == "mixed", workload == "rebalance":
		return []string{
			"rate", "p50 ms", "p99 ms", "max ms", "call p50 ms", "call p99 ms", "cmds/call", "client us", "server us",
			"allocs",
		}
	case strings.HasPrefix(workload, "hot-"):
		return []string{
			"rate", "p50 ms", "p99 ms", "p99.9 ms", "ideal ms", "jain", "cmds/call", "client us", "server us",
			"switches",
		}
	}
	if strings.HasPrefix(workload, "scale-") {
		return []string{"rate", "cmds", "bytes", "client us", "server us", "connections", "lost"}
	}
	for prefix, cols := range map[string][]string{
		"modes-": {"rate", "p50 ms", "p99 ms", "cmds/call", "jain", "refused"},
		"carts-": {"rate", "p50 ms", "p99 ms", "cmds/call", "jain", "refused"},
		"trips-": {"p50 ms", "round trips"},
		"waits-": {"commands/s", "cpu %", "p50 ms", "p99 ms", "killed max ms"},
	} {
		if strings.HasPrefix(workload, prefix) {
			return cols
		}
	}
	return map[string][]string{
		"open-4x":  {"top rate", "cmds/call", "rate"},
		"overload": {"goodput", "capacity", "offered", "served", "p99 ms", "refused p99 ms", "late p99 ms"},
		"takeover": {"p50 ms", "p99 ms", "max ms", "round trip ms", "take-overs"},
		"waiters":  {"commands/s", "heap/waiter", "cancel ms"},
		"leases":   {"lost", "goroutines", "cpu %", "cmds/s"},
		"cuts":     {"p50 ms", "max ms", "lost", "cmds/key"},
		"outage": {
			"p50 ms", "p99 ms", "refused p50 ms", "refused p99 ms", "goroutines", "commands/s", "back ms",
			"refused later",
		},
		"cut": {"max ms", "p50 ms", "p99 ms", "round trip ms", "take-overs", "not served"},
	}[workload]
}

// rungColumns are the columns of one rate of arrival.
var rungColumns = []string{"served", "p50 ms", "p99 ms", "cmds/call", "late p99 ms"}

// report writes everything for people to read.
func report(w io.Writer, r *results) {
	d := &data{r.Runs, r.Rounds}
	fmt.Fprintf(w, "%s · %s · %s/%s, %d CPUs · redis-server %s\n%s\n",
		r.Date.Format("2006-01-02 15:04 MST"), r.Go, r.OS, r.Arch, r.CPUs, r.Redis, strings.Join(r.Versions, " · "))
	fmt.Fprintf(w, "%d rounds, libraries interleaved; numbers are medians of the rounds, ratios are taken "+
		"within a round.\n", r.Rounds)
	if r.Quick {
		fmt.Fprintln(w, "QUICK: too short and too small to compare anything.")
	}
	fmt.Fprintln(w, "\nHow each library is set up")
	for _, l := range libraries {
		fmt.Fprintf(w, "  %-18s %s\n", l.name, l.setting)
	}
	for _, wl := range workloads {
		if libs := d.libraries(wl.name); len(libs) > 0 {
			reportWorkload(w, d, wl, libs)
		}
	}
	fmt.Fprintln(w, "\nBars")
	reportBars(w, r.Bars)
	reportFailures(w, d)
	for _, v := range r.Violations {
		fmt.Fprintln(w, "VIOLATION:", v)
	}
	for _, f := range r.Failed {
		fmt.Fprintln(w, "FAILED:", f)
	}
}

func reportWorkload(w io.Writer, d *data, wl workload, libs []string) {
	fmt.Fprintf(w, "\n%s: %s\n", wl.name, wl.title)
	cols := columns(wl.name)
	first := cols[0]
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	tails := "p99 ms by round"
	if !slices.Contains(cols, "p99 ms") {
		tails = ""
	}
	fmt.Fprintf(t, "\t%s\tx %s\t%s by round\t%s\t\n", strings.Join(cols, "\t"), ours, first, tails)
	for _, l := range libs {
		shown := first
		if len(d.all(wl.name, l, first)) == 0 {
			shown = "rate" // serial has nothing else
		}
		fmt.Fprintf(t, "%s\t", l)
		for _, c := range cols {
			fmt.Fprintf(t, "%s\t", number(median(d.all(wl.name, l, c))))
		}
		fmt.Fprintf(t, "%s\t%s\t", number(median(d.toOurs(wl.name, l, shown, first))),
			numbers(d.all(wl.name, l, shown)))
		if tails != "" {
			fmt.Fprint(t, numbers(d.all(wl.name, l, "p99 ms")))
		}
		fmt.Fprint(t, "\t\n")
	}
	t.Flush()
	for _, l := range libs {
		reportRungs(w, d, wl.name, l)
	}
}

func reportRungs(w io.Writer, d *data, workload, library string) {
	rates := d.rates(workload, library)
	if len(rates) == 0 {
		return
	}
	fmt.Fprintf(w, "%s by rate of arrival\n", library)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "rate\t%s\tserved by round\tp99 ms by round\t\n", strings.Join(rungColumns, "\t"))
	for _, rate := range rates {
		fmt.Fprintf(t, "%s\t", number(rate))
		for _, c := range rungColumns {
			fmt.Fprintf(t, "%s\t", number(median(d.rung(workload, library, rate, c))))
		}
		fmt.Fprintf(t, "%s\t%s\t\n",
			numbers(d.rung(workload, library, rate, "served")), numbers(d.rung(workload, library, rate, "p99 ms")))
	}
	t.Flush()
}

func reportBars(w io.Writer, vs []verdict) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "workload\twhat\tbar\tthis run\t\tby round")
	for _, v := range vs {
		met := "not met"
		if v.Met {
			met = "met"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Workload, v.What, v.Bar, number(v.Median), met, numbers(v.Rounds))
	}
	t.Flush()
}

// reportFailures reports calls that failed for another reason than a held key.
func reportFailures(w io.Writer, d *data) {
	var told []string
	for _, r := range d.runs {
		if r.Failure == "" {
			continue
		}
		if line := fmt.Sprintf("%s, %s: %s", r.Workload, r.Library, r.Failure); !slices.Contains(told, line) {
			told = append(told, line)
			fmt.Fprintln(w, "calls that failed:", line)
		}
	}
}

// number shows three digits, or all digits before the point if there are more.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) || a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	case a >= 0.9: // shares
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func numbers(vs []float64) string {
	var s []string
	for _, v := range vs {
		s = append(s, number(v))
	}
	return strings.Join(s, " ")
}
