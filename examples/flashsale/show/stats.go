package show

import (
	"maps"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// stats are what the guard's metrics say about an instance, or about several.
type stats struct {
	Waits      histogram // for the key, of all callers: those refused waited too
	Holds      histogram
	LeasesLost int64
}

func statsOf(rm metricdata.ResourceMetrics) (s stats) {
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch m.Name {
			case "guard.wait.duration":
				s.Waits.addAll(m.Data)
			case "guard.hold.duration":
				s.Holds.addAll(m.Data)
			case "guard.leases.lost":
				for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
					s.LeasesLost += p.Value
				}
			}
		}
	}
	return s
}

func (s *stats) add(other stats) {
	s.Waits.add(other.Waits)
	s.Holds.add(other.Holds)
	s.LeasesLost += other.LeasesLost
}

// histogram is an exponential one: bucket i counts the values above base^i
// seconds, up to base^(i+1), with base = 2^(2^-Scale).
type histogram struct {
	Scale   int32
	Zero    uint64 // values of 0
	Buckets map[int32]uint64
}

// addAll adds the points of all outcomes. Those of readers are no buyers'.
func (h *histogram) addAll(data metricdata.Aggregation) {
	for _, p := range data.(metricdata.ExponentialHistogram[float64]).DataPoints {
		if mode, _ := p.Attributes.Value("guard.mode"); mode.AsString() == "shared" {
			continue
		}
		one := histogram{Scale: p.Scale, Zero: p.ZeroCount, Buckets: map[int32]uint64{}}
		for i, n := range p.PositiveBucket.Counts {
			if n > 0 {
				one.Buckets[p.PositiveBucket.Offset+int32(i)] = n
			}
		}
		h.add(one)
	}
}

// add merges other into h, at the coarser of their scales: one step coarser
// joins two buckets.
func (h *histogram) add(other histogram) {
	scale := min(h.Scale, other.Scale)
	if h.Buckets == nil {
		scale = other.Scale
	}
	merged := map[int32]uint64{}
	for _, from := range []histogram{*h, other} {
		for i, n := range from.Buckets {
			merged[i>>(from.Scale-scale)] += n
		}
	}
	*h = histogram{Scale: scale, Zero: h.Zero + other.Zero, Buckets: merged}
}

// quantile returns the q-quantile, 0 of nothing: the middle of the bucket that
// it is in.
func (h histogram) quantile(q float64) time.Duration {
	total := h.Zero
	for _, n := range h.Buckets {
		total += n
	}
	rank := uint64(math.Ceil(q * float64(total)))
	seen := h.Zero
	if rank <= seen {
		return 0
	}
	for _, i := range slices.Sorted(maps.Keys(h.Buckets)) {
		if seen += h.Buckets[i]; seen >= rank {
			seconds := math.Exp2((float64(i) + 0.5) * math.Exp2(-float64(h.Scale)))
			return time.Duration(seconds * float64(time.Second))
		}
	}
	return 0
}
