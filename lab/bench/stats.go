package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// quantile returns the q-quantile of sorted by nearest rank, or 0 if sorted is
// empty.
func quantile[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// median returns the middle of vs. For an even number it returns the mean of
// the middle two. If vs is empty it returns NaN.
func median(vs []float64) float64 {
	if len(vs) == 0 {
		return math.NaN()
	}
	vs = slices.Sorted(slices.Values(vs))
	n := len(vs)
	return (vs[(n-1)/2] + vs[n/2]) / 2
}

// jain returns Jain's index of fairness. It is 1 if all shares are equal, and
// 1/n if one has everything.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += s
		squares += s * s
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// idealWait returns the wait of each of n callers in a closed loop with one
// queue, at rate sections a second. It is the time of the turns of the n-1
// others.
func idealWait(n int, rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(n-1) / rate * float64(time.Second))
}

// sorted returns the elements of lists in one sorted list.
func sorted[T cmp.Ordered](lists ...[]T) []T {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return all
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cdfShares are the shares at which a distribution is kept. The steps are even,
// and finer in the tail.
var cdfShares = func() []float64 {
	var s []float64
	for i := 1; i < 100; i++ {
		s = append(s, float64(i)/100)
	}
	for i := 1; i < 10; i++ {
		s = append(s, 0.99+float64(i)/1000)
	}
	return append(s, 0.9999)
}()

// cdf returns the quantiles of sorted at cdfShares, in ms.
func cdf(sorted []time.Duration) []float64 {
	if len(sorted) == 0 {
		return nil
	}
	qs := make([]float64, len(cdfShares))
	for i, s := range cdfShares {
		qs[i] = ms(quantile(sorted, s))
	}
	return qs
}
