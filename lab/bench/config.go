package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// config holds the values of the flags.
type config struct {
	workloads []workload
	libs      []string // serial included
	rounds    int
	json      bool
	plots     string
	plan      plan
	quick     bool
	before    string // an earlier build of this program
}

func parseFlags(args []string, out io.Writer) (c config, err error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(out)
	only := fs.String("only", "",
		"workloads to run, or what their names begin with, as a `list`: "+strings.Join(workloadNames(), ","))
	libs := fs.String("libs", "", "libraries to run, as a `list`: "+strings.Join(allNames(), ","))
	fs.IntVar(&c.rounds, "rounds", 5, "how often everything is measured")
	fs.BoolVar(&c.json, "json", false, "print everything that was measured as JSON")
	fs.StringVar(&c.plots, "plots", "lab/bench/plots", "where the plots go, as a `directory`; \"\": no plots")
	fs.BoolVar(&c.quick, "quick", false, "small and short, to see that everything works; draws only if -plots is "+
		"given, and 2 rounds unless -rounds is")
	length := fs.Duration("for", 0, "how long each closed loop and each measurement of take-overs and sizes takes; "+
		"0: the plan's 3 to 5 s")
	fs.StringVar(&c.before, "before", "", "an earlier build of this program, as a `file`: its guard is measured "+
		"beside this one as "+before)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	c.plan = fullPlan
	if c.quick {
		c.plan = quickPlan
		if !given["plots"] {
			c.plots = ""
		}
		if !given["rounds"] {
			c.rounds = 2
		}
	}
	if *length > 0 {
		c.plan.Closed, c.plan.TakeOver = *length, *length
	}
	if c.rounds < 1 {
		return c, fmt.Errorf("-rounds is %d, want at least 1", c.rounds)
	}
	if c.workloads, err = selectWorkloads(*only); err != nil {
		return c, err
	}
	if c.libs, err = selectLibs(*libs); err == nil && c.before == "" {
		c.libs = slices.DeleteFunc(c.libs, func(l string) bool { return l == before })
	}
	return c, err
}

func workloadNames() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

func selectWorkloads(list string) (chosen []workload, err error) {
	wanted := strings.Split(list, ",") // of nothing: the prefix of every name
	for _, w := range workloads {
		if slices.ContainsFunc(wanted, func(p string) bool { return matches(w.name, p) }) {
			chosen = append(chosen, w)
		}
	}
	for _, p := range wanted {
		if !slices.ContainsFunc(workloads, func(w workload) bool { return matches(w.name, p) }) {
			return nil, fmt.Errorf("-only: no workload %q; there are %s", p, strings.Join(workloadNames(), ", "))
		}
	}
	return chosen, nil
}

// matches reports whether p is the name, or one or more of its first parts.
func matches(name, p string) bool { return p == "" || name == p || strings.HasPrefix(name, p+"-") }

func selectLibs(list string) ([]string, error) {
	if list == "" {
		return allNames(), nil
	}
	libs := strings.Split(list, ",")
	for _, l := range libs {
		if !slices.Contains(allNames(), l) {
			return nil, fmt.Errorf("-libs: no library %q; there are %s", l, strings.Join(allNames(), ", "))
		}
	}
	return libs, nil
}
