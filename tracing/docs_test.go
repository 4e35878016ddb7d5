package tracing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/tracing"
)

// emitted is everything that the package emits for the stories and for a
// renewal that fails.
type emitted struct {
	metrics  map[string]metricdata.Metrics
	outcomes map[string]bool
	// others are the names of attributes and events of spans, and of spans
	// without the guard's name.
	others map[string]bool
}

func collectAll(t *testing.T) emitted {
	t.Helper()
	e := emitted{map[string]metricdata.Metrics{}, map[string]bool{}, map[string]bool{}}
	note := func(attrs []attribute.KeyValue) {
		for _, a := range attrs {
			e.others[string(a.Key)] = true
			if a.Key == "guard.outcome" {
				e.outcomes[a.Value.AsString()] = true
			}
		}
	}
	renewal := story{name: "renewal", run: func(h *shop, ctx context.Context) {
		_ = h.Do(ctx, key, func(context.Context) error {
			mend := h.mem.Break()
			time.Sleep(5 * time.Second)
			mend()
			for _, m := range h.collect(t).ScopeMetrics[0].Metrics { // those of a hold that runs
				e.metrics[m.Name] = m
			}
			return nil
		})
	}}
	linger := []guard.Option{guard.WithLinger(time.Second)}
	idle := story{name: "idle", guard: linger, run: func(h *shop, ctx context.Context) {
		for range 5 { // enough for a key to linger
			_ = h.Do(ctx, key, nop)
		}
	}}
	for _, s := range append(slices.Clone(stories), renewal, idle) {
		synctest.Test(t, func(t *testing.T) {
			h := s.tell(t, setup{tracing: []tracing.Option{tracing.WithKeys()}})
			for _, m := range h.collect(t).ScopeMetrics[0].Metrics {
				e.metrics[m.Name] = m
			}
			for _, s := range h.stubs() {
				if s.InstrumentationScope.Name != tracing.ScopeName {
					continue
				}
				e.others[strings.Replace(s.Name, "shop", "{name}", 1)] = true
				note(s.Attributes)
				for _, event := range s.Events {
					e.others[event.Name] = true
					note(event.Attributes)
				}
			}
		})
	}
	return e
}

// prometheus returns the names that the OpenTelemetry collector and the
// Prometheus exporter give to the series of m.
func prometheus(m metricdata.Metrics) []string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]: // unit s
		return []string{name + "_seconds_bucket", name + "_seconds_sum", name + "_seconds_count"}
	case metricdata.Sum[int64]:
		if data.IsMonotonic {
			return []string{name + "_total"}
		}
	case metricdata.Gauge[float64]: // unit s
		return []string{name + "_seconds"}
	}
	return []string{name}
}

func TestDashboardAndQueriesUseMetricsThatExist(t *testing.T) {
	e := collectAll(t)
	known := []string{"guard_name", "guard_outcome"}
	for _, m := range e.metrics {
		known = append(known, prometheus(m)...)
	}
	outcomes := regexp.MustCompile(`guard_outcome!?=~?\\?"([^"\\]*)`)
	names := regexp.MustCompile(`\bguard_\w+`)
	for _, file := range []string{"README.md", "grafana.json", "alerts.yaml"} {
		text := read(t, file)
		used := names.FindAllString(text, -1)
		if len(used) < 8 {
			t.Errorf("%s uses only %q", file, used)
		}
		for _, n := range used {
			if !slices.Contains(known, n) {
				t.Errorf("%s uses %s, which does not exist", file, n)
			}
		}
		for _, o := range outcomes.FindAllStringSubmatch(text, -1) {
			if !e.outcomes[o[1]] && !strings.Contains(read(t, "README.md"), "`"+o[1]+"`") {
				t.Errorf("%s uses the outcome %q, which does not exist", file, o[1])
			}
		}
	}
	dashboard := read(t, "grafana.json")
	if !json.Valid([]byte(dashboard)) {
		t.Error("grafana.json is not JSON")
	}
	for _, m := range e.metrics {
		if !slices.ContainsFunc(prometheus(m), func(n string) bool { return strings.Contains(dashboard, n) }) {
			t.Errorf("grafana.json does not show %s", m.Name)
		}
	}
}

func TestTheTablesNameAllThatIsEmitted(t *testing.T) {
	e := collectAll(t)
	if len(e.metrics) != 11 {
		t.Fatalf("%d metrics", len(e.metrics))
	}
	readme, doc := read(t, "README.md"), read(t, "doc.go")
	for _, m := range e.metrics {
		kind := "up-down counter"
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			kind = "histogram"
		case metricdata.Sum[int64]:
			if data.IsMonotonic {
				kind = "counter"
			}
		case metricdata.Gauge[float64], metricdata.Gauge[int64]:
			kind = "gauge"
		}
		if row := fmt.Sprintf("| `%s` | %s | `%s` | name", m.Name, kind, m.Unit); !strings.Contains(readme, row) {
			t.Errorf("README.md has no row %q", row)
		}
		if !strings.Contains(doc, m.Name) {
			t.Errorf("doc.go does not name %s", m.Name)
		}
	}
	for n := range e.others {
		if !strings.Contains(readme, "`"+n+"`") {
			t.Errorf("README.md does not name %s", n)
		}
	}
	for o := range e.outcomes {
		if !strings.Contains(readme, "`"+o+"`") || !strings.Contains(doc, "\t"+o+" ") {
			t.Errorf("the outcome %s is not documented", o)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
