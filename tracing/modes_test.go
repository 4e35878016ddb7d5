package tracing_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-lockguard/guard"
)

func TestSpansAndMetricsHaveTheModeOfTheCall(t *testing.T) {
	h := open(t, setup{})
	read, export := h.With(guard.WithShared()), h.With(guard.WithPermits(3))
	for _, g := range []*guard.Guard{h.Guard, read, export} {
		if err := g.Do(t.Context(), key, nop); err != nil {
			t.Fatal(err)
		}
	}

	var spans []string
	for _, s := range h.spans.Ended() {
		var mode, permits string
		for _, a := range s.Attributes() {
			switch a.Key {
			case "guard.mode":
				mode = a.Value.AsString()
			case "guard.permits":
				permits = " " + a.Value.String()
			}
		}
		spans = append(spans, s.Name()+" "+mode+permits)
	}
	equal(t, "spans", spans, []string{
		"acquire shop exclusive", "hold shop exclusive",
		"acquire shop shared", "hold shop shared",
		"acquire shop permits 3", "hold shop permits 3",
	})

	counted := map[string]bool{}
	for _, scope := range h.collect(t).ScopeMetrics {
		for _, m := range scope.Metrics {
			for _, set := range sets(m.Data) {
				mode, ok := set.Value("guard.mode")
				if counted[m.Name+" "+mode.AsString()] = true; !ok {
					t.Errorf("%s has no mode: %s", m.Name, describe(set.ToSlice()))
				}
				if set.HasValue("guard.permits") {
					t.Errorf("%s has a series for each number of permits", m.Name)
				}
			}
		}
	}
	for _, name := range []string{
		"guard.wait.duration", "guard.hold.duration", "guard.hold.oldest", "guard.waits",
		"guard.waiters", "guard.leases", "guard.renewals", "guard.leases.lost",
	} {
		for _, mode := range []string{"exclusive", "shared", "permits"} {
			if !counted[name+" "+mode] {
				t.Errorf("%s has no series of the mode %s", name, mode)
			}
		}
	}
}

// sets returns the attributes of each point of a metric.
func sets(data metricdata.Aggregation) (all []attribute.Set) {
	switch data := data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	}
	return all
}
