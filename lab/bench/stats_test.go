package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestQuantileIsTheNearestRank(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, c := range []struct {
		of   []int
		q    float64
		want int
	}{
		{nil, 0.5, 0},
		{[]int{7}, 0, 7},
		{[]int{7}, 1, 7},
		{[]int{1, 2}, 0.5, 1},
		{[]int{1, 2}, 0.51, 2},
		{hundred, 0, 1},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 0.999, 100},
		{hundred, 1, 100},
	} {
		if got := quantile(c.of, c.q); got != c.want {
			t.Errorf("quantile %v of %d numbers is %d, want %d", c.q, len(c.of), got, c.want)
		}
	}
}

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{9, 1, 5, 7}, 6},
	} {
		before := slices.Clone(c.of)
		if got := median(c.of); got != c.want || !slices.Equal(before, c.of) {
			t.Errorf("median of %v is %v, want %v", before, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}

func TestJainIsOneForEqualSharesAndOneNthForOneShare(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{
		{[]float64{5, 5, 5, 5}, 1},
		{[]float64{8, 0, 0, 0}, 0.25},
		{[]float64{1, 3}, 0.8},
	} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("jain of %v is %v, want %v", c.shares, got, c.want)
		}
	}
	if got := jain([]float64{0, 0}); !math.IsNaN(got) {
		t.Errorf("jain of nothing is %v", got)
	}
}

func TestIdealWaitIsTheTurnsOfTheOthers(t *testing.T) {
	for _, c := range []struct {
		n    int
		rate float64
		want time.Duration
	}{{1, 1000, 0}, {101, 1000, 100 * time.Millisecond}, {3, 0, 0}} {
		if got := idealWait(c.n, c.rate); got != c.want {
			t.Errorf("%d callers at %v/s wait %v, want %v", c.n, c.rate, got, c.want)
		}
	}
}

func TestCDFRisesWithTheShares(t *testing.T) {
	var ds []time.Duration
	for i := range 10_000 {
		ds = append(ds, time.Duration(i+1)*time.Millisecond)
	}
	qs := cdf(ds)
	if len(qs) != len(cdfShares) || !slices.IsSorted(qs) || !slices.IsSorted(cdfShares) {
		t.Fatalf("%d quantiles for %d shares: %v", len(qs), len(cdfShares), qs)
	}
	if i := slices.Index(cdfShares, 0.5); qs[i] != 5000 {
		t.Errorf("half of them waited up to %v ms, want 5000", qs[i])
	}
	if got := cdf(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
