package tracing_test

import (
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// idle returns guard.keys.idle by the names of guards.
func (h *shop) idle(t *testing.T) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, m := range h.collect(t).ScopeMetrics[0].Metrics {
		if m.Name != "guard.keys.idle" {
			continue
		}
		for _, p := range m.Data.(metricdata.Gauge[int64]).DataPoints { //nolint:forcetypeassert // a test
			all[describe(p.Attributes.ToSlice(), exclusive)] = p.Value
		}
	}
	return all
}

// settle calls Do for n keys until they linger.
func settle(t *testing.T, g *guard.Guard, prefix string, n int) {
	t.Helper()
	for range 5 {
		for i := range n {
			if err := g.Do(t.Context(), prefix+strconv.Itoa(i), nop); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestIdleKeysAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, setup{})
		expect := func(when string, want map[string]int64) {
			t.Helper()
			if got := h.idle(t); !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		settle(t, h.Guard, "off", 3)
		expect("without WithLinger", map[string]int64{})

		linger := guard.WithLinger(time.Second)
		refunds := []guard.Option{linger, guard.WithName("refund"), guard.WithObserver(h.obs)}
		refund, another := h.With(refunds...), h.guard(t, memlocker.New(), refunds)
		settle(t, h.With(linger), "shop", 3)
		settle(t, refund, "refund", 2)
		settle(t, another, "refund", 4)
		expect("while keys are idle", map[string]int64{"name=shop": 3, "name=refund": 2 + 4})
		if err := another.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect("after Close", map[string]int64{"name=shop": 3, "name=refund": 2})
		if err := h.other.Do(t.Context(), "shop0", nop); err != nil {
			t.Fatal(err)
		}
		expect("after a hand-over", map[string]int64{"name=shop": 2, "name=refund": 2})
		time.Sleep(time.Second)
		synctest.Wait()
		expect("after the time of WithLinger", map[string]int64{"name=shop": 0, "name=refund": 0})
	})
}
