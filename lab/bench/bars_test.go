package main

import (
	"math"
	"strings"
	"testing"
)

func TestBarsCompareWithinARoundAndTakeTheMedian(t *testing.T) {
	d := &data{rounds: 3}
	add := func(library string, round int, v values) {
		d.runs = append(d.runs, run{Workload: "hot-4x25", Library: library, Round: round, Values: v})
	}
	for round, speed := range []float64{1, 10, 100} { // the machine changes, the ratios do not
		add(serial, round+1, values{"rate": 1000 * speed})
		add(ours, round+1, values{"rate": 900 * speed, "p99 ms": 10, "p99.9 ms": 40, "ideal ms": 10, "jain": 0.95})
		add("redislock", round+1, values{"rate": 300 * speed, "p99 ms": 20})
		add("rueidislock", round+1, values{"rate": 600 * speed, "p99 ms": 100})
	}
	d.runs[len(d.runs)-2].Values["rate"] = 1e9 // redislock, once: the best of one round is not the best
	want := map[string]struct {
		median float64
		met    bool
	}{
		"x serial":                  {0.9, false},
		"x best peer":               {1.5, true},
		"p99 / that peer's p99":     {0.1, true},
		"Jain index over processes": {0.95, true},
		"p99 / ideal FIFO wait":     {1, true},
		"p99.9 / ideal FIFO wait":   {4, false},
	}
	vs := judge(d)
	if len(vs) != len(want) {
		t.Errorf("%d verdicts, want %d: what was not measured has none", len(vs), len(want))
	}
	for _, v := range vs {
		w, ok := want[v.What]
		if !ok || math.Abs(v.Median-w.median) > 1e-9 || v.Met != w.met || len(v.Rounds) != 3 {
			t.Errorf("%s: %+v, want %+v", v.What, v, w)
		}
	}
}

func TestEveryBarBelongsToAWorkload(t *testing.T) {
	judged := map[string]bool{}
	for _, b := range bars() {
		judged[b.workload] = true
	}
	for _, w := range workloads {
		if w.own {
			continue // nothing compares
		}
		if !judged[w.name] {
			t.Errorf("%s has no bar", w.name)
		}
		delete(judged, w.name)
		if len(columns(w.name)) == 0 {
			t.Errorf("%s has no columns", w.name)
		}
	}
	if len(judged) > 0 {
		t.Errorf("bars without a workload: %v", judged)
	}
}

func TestRungsAreKeptApartFromTheSummary(t *testing.T) {
	d := &data{rounds: 1, runs: []run{
		{Workload: "open-4x", Library: ours, Round: 1, Rate: 1250, Values: values{"served": 0.5, "cmds/call": 9}},
		{Workload: "open-4x", Library: ours, Round: 1, Rate: 1000, Values: values{"served": 1, "cmds/call": 3}},
		{Workload: "open-4x", Library: ours, Round: 1, Values: values{"top rate": 1000, "cmds/call": 3}},
	}}
	if got := d.all("open-4x", ours, "cmds/call"); len(got) != 1 || got[0] != 3 {
		t.Errorf("summary: %v", got)
	}
	if got := d.rates("open-4x", ours); len(got) != 2 || got[0] != 1000 {
		t.Errorf("rates: %v", got)
	}
	if got := d.rung("open-4x", ours, 1250, "served"); len(got) != 1 || got[0] != 0.5 {
		t.Errorf("rung: %v", got)
	}
}

func TestOneWorkloadOfAPlotIsNotDrawn(t *testing.T) {
	d := &data{runs: []run{{Workload: "spread-1", Library: ours, Round: 1, Values: values{"rate": 1}}}, rounds: 1}
	if files, err := drawAll(d, t.TempDir()); len(files) > 0 || err != nil {
		t.Errorf("%v, %v", files, err)
	}
}

func TestFlagsSelectWorkloadsAndLibraries(t *testing.T) {
	for args, want := range map[string]int{
		"": len(workloads), "-only hot": 3, "-only spread-4": 1, "-only spread,cut": 7, "-only open-4x,takeover": 2,
	} {
		c, err := parseFlags(strings.Fields(args), t.Output())
		if err != nil || len(c.workloads) != want {
			t.Errorf("%q: %d workloads, %v; want %d", args, len(c.workloads), err, want)
		}
	}
	for _, args := range []string{"-only no", "-libs no", "-rounds 0", "hot"} {
		if _, err := parseFlags(strings.Fields(args), t.Output()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestPeersTakeTurnsAndRestWhereNothingComparesWithThem(t *testing.T) {
	w := workload{libs: []string{"redislock", "redsync"}}
	if got := strings.Join(turn(librariesOf(w, allNames(), 2), 2), " "); got != "guard-before redislock redsync guard" {
		t.Error("second round:", got)
	}
	w.once = true
	if got := strings.Join(librariesOf(w, allNames(), 2), " "); got != ours+" "+before {
		t.Error("second round of a workload without a comparison:", got)
	}
	if got := strings.Join(librariesOf(w, []string{"redsync"}, 1), " "); got != "redsync" {
		t.Error("only one library wanted:", got)
	}
}
