package main

import (
	"maps"
	"math"
	"slices"
)

// data holds all measurements. Its methods return one measure in all rounds.
type data struct {
	runs   []run
	rounds int
}

// get returns a measure of one round.
func (d *data) get(workload, library, measure string, round int) (float64, bool) {
	for i := range d.runs {
		r := &d.runs[i]
		if r.Workload == workload && r.Library == library && r.Round == round && r.Rate == 0 {
			v, ok := r.Values[measure]
			return v, ok && !math.IsNaN(v)
		}
	}
	return 0, false
}

// all returns a measure in the order of rounds, without those that lack it.
func (d *data) all(workload, library, measure string) (vs []float64) {
	for round := range d.rounds {
		if v, ok := d.get(workload, library, measure, round+1); ok {
			vs = append(vs, v)
		}
	}
	return vs
}

// toOurs returns a measure divided by another one of guard, in every round that
// has both.
func (d *data) toOurs(workload, library, measure, ofOurs string) (ratios []float64) {
	for round := range d.rounds {
		v, ok := d.get(workload, library, measure, round+1)
		base, okOurs := d.get(workload, ours, ofOurs, round+1)
		if ok && okOurs && base > 0 {
			ratios = append(ratios, v/base)
		}
	}
	return ratios
}

// best returns the library with the highest median of a measure. It is one
// library for all rounds, because the best of each round would be the luckiest.
func (d *data) best(workload, measure string, libs []string) (library string) {
	most := math.Inf(-1)
	for _, l := range libs {
		if m := median(d.all(workload, l, measure)); m > most { // never if it was not measured
			library, most = l, m
		}
	}
	return library
}

// rates returns the measured rungs of a library in rising order.
func (d *data) rates(workload, library string) []float64 {
	rates := map[float64]bool{}
	for _, r := range d.of(workload, library) {
		if r.Rate > 0 {
			rates[r.Rate] = true
		}
	}
	return slices.Sorted(maps.Keys(rates))
}

// rung returns a measure at one rate of arrival, in all rounds that reached it.
func (d *data) rung(workload, library string, rate float64, measure string) (vs []float64) {
	for _, r := range d.of(workload, library) {
		if r.Rate == rate {
			vs = append(vs, r.Values[measure])
		}
	}
	return vs
}

func (d *data) of(workload, library string) (runs []run) {
	for _, r := range d.runs {
		if r.Workload == workload && r.Library == library {
			runs = append(runs, r)
		}
	}
	return runs
}

// libraries returns the libraries that were measured in a workload, in the
// order of the report.
func (d *data) libraries(workload string) (names []string) {
	for _, name := range allNames() {
		if len(d.of(workload, name)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// allNames are serial and the libraries.
func allNames() []string {
	names := []string{serial}
	for _, l := range libraries {
		names = append(names, l.name)
	}
	return names
}
